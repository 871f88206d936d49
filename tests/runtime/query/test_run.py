"""One run of a task, on files as Spark leaves them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from streamjob.protocol.graph import TaskName
from streamjob.runtime.query.bounded_input import InputEnd
from streamjob.runtime.query.run import Run
from streamjob.runtime.spark.checkpoint_dir import MAX_WATERMARK_MS, CheckpointDir
from streamjob.runtime.spark.versions.table import BY_VERSION

from ..localfiles import LocalFiles

FILES: Any = LocalFiles()


class Query:
    """It runs what is planned, and nothing else: `trigger(once=True)` behind a crash."""

    lastProgress = None

    def __init__(self, directory: CheckpointDir) -> None:
        write(directory, "commits", directory.latest_offset() or 0)

    def awaitTermination(self) -> None: ...

    def exception(self) -> None: ...


def write(directory: CheckpointDir, log: str, batch: int, watermark: int = 5) -> None:
    entry = "\n".join(["v1", json.dumps({"batchWatermarkMs": watermark, "conf": {}}), "{}"])
    FILES.write_new(f"{directory.uri}/{log}/{batch}", (entry if log == "offsets" else "v1\n{}").encode())


def run_of(directory: CheckpointDir) -> Run:
    """One that reads nothing: the job is asked to end."""
    internals = SimpleNamespace(traits=BY_VERSION["4.1"])
    engine: Any = SimpleNamespace(files=FILES, jvm=None, internals=internals)

    def restart(*_: object, **__: object) -> Any:
        return Query(directory)

    return Run(TaskName("orders", "orders"), engine, directory, restart, InputEnd(None, directory))


def test_w1_a_stop_completes_the_flush_that_an_earlier_driver_has_planned(tmp_path: Path) -> None:
    """Otherwise the query would be at no boundary for ever: the batch is planned, and the stop runs none."""
    directory = CheckpointDir(FILES, f"file:{tmp_path}/orders/0")
    for log in ("offsets", "commits"):
        write(directory, log, 0)
    write(directory, "offsets", 1, MAX_WATERMARK_MS)
    said: list[str] = []
    run = run_of(directory)
    assert run.stop_at_boundary(said.append) == 0
    assert run.complete_flush(said.append) == 1
    assert directory.boundary() == 1
    assert said == ["stage orders: completing the flush that an earlier driver began"]
    assert run.complete_flush(said.append) == 1, "a repetition runs nothing"


def test_w1_a_stop_begins_no_flush(tmp_path: Path) -> None:
    directory = CheckpointDir(FILES, f"file:{tmp_path}/orders/0")
    for log in ("offsets", "commits"):
        write(directory, log, 0)
    assert run_of(directory).complete_flush(lambda _: None) is None
    assert directory.boundary() == 0


def test_row1_that_everything_is_read_is_not_known_of_a_session_that_has_ended(tmp_path: Path) -> None:
    """The thread that asks waits for the end of the query, and must not end by an error itself."""
    directory = CheckpointDir(FILES, f"file:{tmp_path}/orders/0")
    write(directory, "offsets", 0)
    run = run_of(directory)
    run.query = Query(directory)  # type: ignore[assignment]

    def gone(query: object) -> None:
        raise AttributeError("'NoneType' object has no attribute '_jvm'")

    run.engine = SimpleNamespace(internals=SimpleNamespace(execution=gone))  # type: ignore[assignment]
    assert not run.has_read_all()
