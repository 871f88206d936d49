"""What a query's sources are compared by, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from streamjob.protocol.messages.driver_status import Problem
from streamjob.runtime.query import endpoints
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.sources.plan_sources import Source
from streamjob.runtime.startup.checks.sources import refuse_other_sources
from streamjob.storage.local_disk import uri_of
from tests.runtime.localfiles import LocalFiles

POSITION = '{"version":1,"snapshot_id":7,"position":1,"scan_all_files":false}'


def told(home: Path, name: str, before: dict[str, str], now: dict[str, str]) -> list[Problem]:
    """The warnings for a query whose source had other options at its last start."""
    for log, text in (("offsets", f'v1\n{{"batchWatermarkMs":0}}\n{POSITION}'), ("commits", "v1\n{}")):
        (home / log).mkdir()
        (home / log / "0").write_text(text)
    directory = CheckpointDir(cast(Any, LocalFiles()), uri_of(home))
    endpoints.note(directory, endpoints.ends([Source(name, before)], None, "write", str))
    return refuse_other_sources(directory, [Source(name, now)], None, fed=None)


def test_an_option_that_says_where_to_begin_and_is_computed_at_each_start(tmp_path: Path) -> None:
    key = "stream-from-timestamp"
    (warning,) = told(tmp_path, "iceberg", {key: "1000"}, {key: "2000", "branch": "b"})
    assert warning.reason == "SourceMoved"
    assert f"{key} is 2000 and was 1000" in warning.message
    assert "a value that stays the same" in warning.remedy


@pytest.mark.parametrize(
    ("name", "before", "now"),
    [
        ("iceberg", {"stream-from-timestamp": "1000"}, {"stream-from-timestamp": "1000"}),
        ("iceberg", {"branch": "a"}, {"branch": "b"}),
        ("delta", {"startingtimestamp": "1000"}, {"startingtimestamp": "2000"}),  # obeyed once
        ("kafka", {"startingtimestamp": "1000"}, {"startingtimestamp": "2000"}),  # obeyed once
    ],
)
def test_nothing_is_said_of_options_that_move_nothing(
    tmp_path: Path, name: str, before: dict[str, str], now: dict[str, str]
) -> None:
    assert told(tmp_path, name, before, now) == []
