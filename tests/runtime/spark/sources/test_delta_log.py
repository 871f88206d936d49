"""What Delta's log says, and positions in tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from streamjob.runtime.spark.sources.delta_log import (
    AddedFile,
    DeltaCommit,
    DeltaLog,
    DeltaPosition,
    delta_position,
    parse_commit,
)
from streamjob.runtime.spark.sources.iceberg_history import BEGINNING, snapshot_of
from streamjob.storage.hadoop import NotFound
from streamjob.storage.local_disk import uri_of
from tests.runtime.localfiles import LocalFiles

DELTA = '{"sourceVersion":1,"reservoirId":"a","reservoirVersion":3,"index":-1,"isStartingVersion":false}'
ICEBERG = '{"version":1,"snapshot_id":7,"position":1,"scan_all_files":false}'


def test_positions() -> None:
    assert delta_position(DELTA) == DeltaPosition("a", 3)
    assert delta_position(DELTA.replace("false", "true")) == DeltaPosition("a", 3, initial=True)
    assert snapshot_of(ICEBERG) == 7
    assert snapshot_of(ICEBERG.replace("7", "-1")) == BEGINNING
    for text in (ICEBERG, None, "-", "17", "[1]", '{"logOffset":3}'):
        assert delta_position(text) is None
    for text in (DELTA, None, "-", "17", "[1]", '{"logOffset":3}'):
        assert snapshot_of(text) is None


def test_a_commit() -> None:
    actions: list[dict[str, Any]] = [
        {"commitInfo": {"timestamp": 1000}},
        {"add": {"path": "a", "size": 5, "dataChange": True, "stats": '{"numRecords":2}'}},
        {"add": {"path": "b", "size": 6, "dataChange": False}},
        {"remove": {"path": "c", "dataChange": False}},
    ]
    text = "\n".join(map(json.dumps, actions))
    assert parse_commit(text) == DeltaCommit((AddedFile("a", 2, 5),), 1000)
    actions.append({"remove": {"path": "d", "dataChange": True}})
    assert parse_commit("\n".join(map(json.dumps, actions))).removes
    assert parse_commit('{"commitInfo": {"operation": "RESTORE"}}').restores


@pytest.mark.parametrize(
    ("there", "first_left"),
    [
        ([2, 3, 4, 5, 6], 2),
        ([3, 4, 5, 6], 3),
        ([6], 6),
        ([], None),  # a catalog has the newest ones
    ],
)
def test_what_a_clean_up_has_left(tmp_path: Path, there: list[int], first_left: int | None) -> None:
    (tmp_path / "_delta_log").mkdir()
    for version in there:
        (tmp_path / "_delta_log" / f"{version:020}.json").write_text("{}")
    log = DeltaLog(cast(Any, LocalFiles()), uri_of(tmp_path))
    assert log.first_left(2, newest=6) == first_left
    assert log.first_left(7, newest=6) == 7, "it is still to come"
    with pytest.raises(NotFound):
        log.commit(7)


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("part-0.parquet", "s3a://b/t/part-0.parquet"),
        ("day=a%2520b/part-0.parquet", "s3a://b/t/day=a%20b/part-0.parquet"),
        ("s3a://c/part-0.parquet", "s3a://c/part-0.parquet"),
        ("/c/part-0.parquet", "/c/part-0.parquet"),
    ],
)
def test_a_path_in_the_log(path: str, uri: str) -> None:
    assert DeltaLog(cast(Any, None), "s3a://b/t/").uri(path) == uri
