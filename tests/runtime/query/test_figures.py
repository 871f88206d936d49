"""The lag of a run's sources: how often Spark is asked for them, and what is logged of those that fail."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

import pytest

from streamjob.protocol.formats.records import OperatorKind, OperatorRecord
from streamjob.protocol.messages.figures import Lag, SourceFigures
from streamjob.runtime.query import figures
from streamjob.runtime.query.figures import Lags
from streamjob.runtime.spark import progress
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.storage.local_disk import uri_of
from tests.runtime.localfiles import LocalFiles

STREAMS = ["a topic", "a folder"]


class Broken:
    def measure(self, position: str | None, now: float) -> Lag:
        raise OSError("no broker")

    def close(self) -> None: ...


class Sound:
    def measure(self, position: str | None, now: float) -> Lag:
        return Lag(files=0 if position == '{"logOffset":3}' else 1)

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("KafkaV2[Subscribe[orders]]", "KafkaV2[Subscribe[orders]]"),
        ("FileStreamSource[file:/data/in]", "FileStreamSource[file:/data/in]"),
        ("org.apache.spark.sql.execution.datasources.noop.NoopTable$@7a3f", "NoopTable"),
        ("x" * 500, "x" * 120),
        (None, "source-0"),
    ],
)
def test_operators_have_the_names_that_spark_has_for_them(description: str | None, name: str) -> None:
    source = OperatorRecord("source-0", OperatorKind.SOURCE, "source-0", False)
    state = OperatorRecord("state-0", OperatorKind.STATE, "stateStoreSave", False)
    sink = OperatorRecord("sink", OperatorKind.SINK, "sink", False)
    last = {"sources": [{"description": description}], "sink": {"description": "ForeachBatchSink"}}
    found = progress.described(last, (source, state, sink))
    assert [o.name for o in found] == [name, "stateStoreSave", "ForeachBatchSink"]
    assert progress.described({}, (source, state, sink)) == (source, state, sink)


@pytest.mark.parametrize(
    ("number", "parts", "batch"),
    [
        (7, {"addBatch": 5, "triggerExecution": 9}, 7),
        (8, {"latestOffset": 1, "triggerExecution": 1}, 7),
        (0, {"latestOffset": 1}, None),
    ],
)
def test_a_trigger_without_new_data_is_no_batch(
    number: int, parts: dict[str, int], batch: int | None
) -> None:
    """Spark reports it with the number of the batch that comes next."""
    assert progress.batch({"batchId": number, "durationMs": parts}) == batch


def test_a_batch_is_committed_when_its_progress_says_so(directory: CheckpointDir, tmp_path: Path) -> None:
    """After a resume, an interrupted batch runs again: the newest commit that was listed is older."""
    before = datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc)
    os.utime(tmp_path / "commits" / "0", (before.timestamp(), before.timestamp()))
    lags = Lags(directory, None, None)
    lags.measure(lambda: [])
    assert lags.last_commit == "2026-01-02T03:04:00Z"
    again = {"batchId": 1, "timestamp": "2026-01-02T03:15:00.500Z"}
    again |= {"durationMs": {"addBatch": 1000, "triggerExecution": 2600}}
    idle = {"batchId": 2, "timestamp": "2026-01-02T03:16:00.000Z"}
    idle |= {"durationMs": {"latestOffset": 1, "triggerExecution": 2}}
    for found in (again, idle):
        assert figures.figures_of(found, (), lags).query.last_commit == "2026-01-02T03:15:03Z"
        lags.measure(lambda: [])


@pytest.fixture
def directory(tmp_path: Path) -> CheckpointDir:
    """One batch, in format 2 of the offset log, which has only sources that have read something."""
    for log, text in (
        ("offsets", 'v2\n{"batchWatermarkMs":0}\n1:{"logOffset":3}\n'),
        ("commits", "v1\n{}"),
    ):
        (tmp_path / log).mkdir()
        (tmp_path / log / "0").write_text(text)
    return CheckpointDir(cast(Any, LocalFiles()), uri_of(tmp_path))


def test_a_source_that_fails_is_logged_once_and_costs_no_other_its_figures(
    directory: CheckpointDir, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(figures, "meter_of", lambda stream, *_: Broken() if stream == "a topic" else Sound())
    lags = Lags(directory, None, None)
    for _ in range(3):
        lags.measure(lambda: STREAMS)
        assert lags.sources == (SourceFigures("source-1", Lag(files=0)),)
    assert caplog.text.count("the lag of source 0") == 1


def test_spark_is_asked_for_the_sources_until_it_has_them(
    directory: CheckpointDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "meter_of", lambda *_: Sound())
    lags = Lags(directory, None, None)
    asked: list[int] = []

    def streams() -> list[str]:
        asked.append(len(asked))
        return STREAMS if len(asked) == 2 else []

    for _ in range(4):
        lags.measure(streams)
    assert len(asked) == 2
    assert len(lags.sources) == 2
