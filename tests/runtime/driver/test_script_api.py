"""What a callback of the JVM may do with queries: a foreachBatch function, a listener."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from streamjob.protocol.engine import events as ev
from streamjob.protocol.formats.records import JobRef
from streamjob.protocol.graph import TaskName
from streamjob.protocol.messages.driver_config import Application, DriverConfig
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus
from streamjob.runtime.driver.driver import Driver
from streamjob.runtime.driver.script_api import QueryInForeachBatch
from streamjob.runtime.driver.status_board import StatusBoard
from streamjob.runtime.query.figures import Figures
from streamjob.runtime.spark.foreach_batch.function import BatchFunction, batch_of

PATIENCE = 20.0


class Run:
    """Stands in for a `Stage`, whose query only Spark has. Its batch ends when the test lets it."""

    def __init__(self, uid: str) -> None:
        self.name = TaskName(uid, uid)
        self.uid = self.task = uid
        self.figures = Figures()
        self.failure: Exception | None = None
        self.brokers = ()
        self.failed_by_itself = self.stopped_by_request = self.exhausts = False
        self.over = threading.Event()
        self.query, self.takes_over, self.transactions = object(), None, None
        self.each_batch = BatchFunction(lambda frame, batch: None)
        self.interrupted = threading.Event()
        self.directory = self
        self.batch_ends = threading.Event()

    def continues(self, other: Run) -> bool:
        return self is other

    def cause_of(self, error: Exception) -> Exception:
        return error

    def latest_commit(self) -> int:
        return 3

    def complete_flush(self, on_wait: Callable[[str], None]) -> None:
        """No crash has left one."""

    def rest_at_boundary(self, on_wait: Callable[[str], None]) -> int:
        return self.stop_at_boundary(on_wait)

    def stop_at_boundary(self, on_wait: Callable[[str], None]) -> int:
        on_wait("the running batch has to commit")
        assert self.batch_ends.wait(PATIENCE)
        return 3

    def interrupt(self) -> None:
        """There is no query."""

    cut_short = interrupt


@pytest.fixture
def driver() -> Iterator[Driver]:
    job = JobRef("shop", "orders", "uid-1")
    board = StatusBoard(DriverStatus(1, job.uid, 1, DriverPhase.STARTING))
    made = Driver(DriverConfig(job, 1, Application("app.py"), "file:/checkpoints"), board)
    yield made
    made.terminated.set()


def start(driver: Driver, uid: str, *upstream: str) -> Run:
    run = Run(uid)
    driver._loop.enter(run, ev.TaskStarted(uid, upstream, commits=False))  # type: ignore[arg-type]
    return run


def in_callback(call: Callable[[], None]) -> None:
    """Call it as py4j calls a listener or a foreachBatch function."""
    scope: dict[str, Any] = {"__name__": "py4j.clientserver"}
    exec("def call(function):\n    function()", scope)
    scope["call"](call)


def test_a_foreachbatch_function_that_starts_a_query_is_refused_and_its_batch_fails(driver: Driver) -> None:
    function = start(driver, "a").each_batch

    def starts(frame: object, batch: int) -> None:
        with suppress(QueryInForeachBatch):
            driver.script.start_query(None, None, (), {})  # type: ignore[arg-type]

    function.function = starts
    with pytest.raises(QueryInForeachBatch) as e:
        function(None, 1)  # type: ignore[arg-type]
    assert function.failure is e.value, "the job fails with its reason and its remedy"
    assert "frame.sparkSession.read" in e.value.remedy


def test_a_foreachbatch_function_waits_for_no_query_without_a_timeout(driver: Driver) -> None:
    run, function = start(driver, "a"), BatchFunction(lambda frame, batch: None)
    with batch_of(function):
        assert not driver.script.await_run(run, 1)  # type: ignore[arg-type]
        with pytest.raises(QueryInForeachBatch):
            driver.script.await_run(run, None)  # type: ignore[arg-type]
        with pytest.raises(QueryInForeachBatch):
            driver.script.await_any(lambda run: True, None)


def test_a_callback_that_stops_a_query_does_not_wait_for_the_batch_that_it_may_be_part_of(
    driver: Driver,
) -> None:
    run = start(driver, "a")
    in_callback(lambda: driver.script.script_stops(run))  # type: ignore[arg-type]
    assert not run.over.is_set()
    run.batch_ends.set()
    assert run.over.wait(PATIENCE)
