"""The event log of a stream, as Spark's own History Server reads it while the stream runs and afterwards."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.storage.local_disk import uri_of

from .feeds import eventually
from .history import History, reading
from .job import APP, Feed


def settings(logs: Path) -> dict[str, str]:
    """As in docs/operations.md. A driver without executors has an id of its own, `local-…`, in each epoch."""
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": uri_of(logs),
        "spark.eventLog.rolling.enabled": "true",
        "spark.eventLog.rolling.maxFileSize": "10m",
    }


def batches(history: History, app: str) -> set[int]:
    """The batches of the query in the SQL tab."""
    found = history.api(f"applications/{app}/sql?details=false&planDescription=false&length=1000")
    described = [re.search(r"batch = (\d+)", execution["description"]) for execution in found]
    return {int(match[1]) for match in described if match}


@pytest.mark.default_spark
@pytest.mark.slow
def test_a_history_server_shows_each_epoch_with_its_batches(feed: Feed, tmp_path: Path) -> None:
    feed.add(4)
    logs = tmp_path / "events"
    logs.mkdir()
    conf = settings(logs)
    with reading(logs) as history:
        with LocalDriver(tmp_path, APP, *feed.arguments(), spark_conf=conf) as driver:
            driver.running(2)
            eventually(lambda: list(history.completed().values()) == [False], "the running application")
            stopped = driver.finish(Mode.STOP)
        last = stopped.stages[0].tasks[0].batch
        assert last is not None
        with driver.next_epoch(APP, *feed.arguments(), spark_conf=conf) as driver:
            drained = driver.finish(Mode.DRAIN)
        assert drained.drained
        eventually(lambda: list(history.completed().values()) == [True, True], "the end of both")
        first, second = history.completed()
        assert batches(history, first) == set(range(last + 1))
        flush = drained.stages[0].tasks[0].batch
        assert flush is not None
        assert batches(history, second) == set(range(last + 1, flush + 1))
        assert re.search(
            r"Completed Streaming Queries\s*\(1\)", history.page(f"/history/{first}/StreamingQuery/")
        )
    assert not list(logs.rglob("*.inprogress"))
