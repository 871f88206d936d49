"""A query that is stopped in a callback of the JVM begins no other batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from streamjob.protocol.engine import events as ev
from streamjob.protocol.formats.records import JobRef
from streamjob.protocol.graph import TaskName
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Application, DriverConfig
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus
from streamjob.runtime.driver.driver import Driver
from streamjob.runtime.driver.status_board import StatusBoard
from streamjob.runtime.query.figures import Figures
from streamjob.runtime.spark.foreach_batch.function import Batch, BatchFunction, batch_of

PATIENCE = 20.0


class Run:
    """Stands in for a `Stage`, whose query only Spark has. The stop reaches it when the test lets it."""

    def __init__(self, uid: str) -> None:
        self.name = TaskName(uid, uid)
        self.uid = self.task = uid
        self.figures = Figures()
        self.failure: Exception | None = None
        self.failed_by_itself = self.stopped_by_request = self.exhausts = False
        self.over, self.told = threading.Event(), threading.Event()
        self.query, self.takes_over, self.transactions = object(), None, None
        self.each_batch = BatchFunction(lambda frame, batch: None)
        self.started_in: Batch | None = None
        self.directory = self
        self.tell: Callable[[], object] = lambda: None
        self.batch_ends = threading.Event()

    def continues(self, other: Run) -> bool:
        return self is other

    def cause_of(self, error: Exception) -> Exception:
        return error

    def latest_commit(self) -> int:
        return 3

    def rest_at_boundary(self, on_wait: Callable[[str], None]) -> int:
        return self.stop_at_boundary(on_wait)

    def stop_at_boundary(self, on_wait: Callable[[str], None]) -> int:
        self.tell()
        self.told.set()
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


def stop_in_batch_of(caller: Run, driver: Driver, *runs: Run) -> threading.Thread:
    """A batch of `caller`, which ends when the stop of the runs has returned."""

    def batch() -> None:
        with batch_of(caller.each_batch):
            driver.script.script_stops(*runs)  # type: ignore[arg-type]
        caller.batch_ends.set()

    thread = threading.Thread(target=batch)
    thread.start()
    return thread


def test_the_batch_that_stops_its_own_query_is_its_last(driver: Driver) -> None:
    run = start(driver, "a")
    ended_before: list[bool] = []
    # The batch has ended by then, or waits for the stop to reach its query.
    run.tell = lambda: ended_before.append(run.batch_ends.wait(0.2))
    stop_in_batch_of(run, driver, run).join(PATIENCE)
    assert ended_before == [False]
    assert run.over.wait(PATIENCE)


def test_a_batch_waits_for_the_end_of_another_query_and_not_of_its_own(driver: Driver) -> None:
    own, other = start(driver, "a"), start(driver, "b")
    batch = stop_in_batch_of(own, driver, own, other)
    assert other.told.wait(PATIENCE)
    assert own.told.wait(PATIENCE)
    assert not own.batch_ends.is_set()
    other.batch_ends.set()
    batch.join(PATIENCE)
    assert own.batch_ends.is_set()


def test_a_nested_batch_does_not_wait_for_the_end_of_the_one_that_waits_for_it(driver: Driver) -> None:
    outer, inner = start(driver, "a"), start(driver, "b")
    outer.each_batch.batch = 1
    inner.started_in = Batch(outer.each_batch, 1)
    with batch_of(outer.each_batch):
        stop_in_batch_of(inner, driver, outer).join(PATIENCE)
    assert inner.batch_ends.is_set()
    assert outer.told.is_set()
    outer.batch_ends.set()
    assert outer.over.wait(PATIENCE)


def test_a_batch_waits_for_the_end_of_the_query_whose_earlier_batch_has_started_its_own(
    driver: Driver,
) -> None:
    first, second = start(driver, "a"), start(driver, "b")
    first.each_batch.batch = 2
    second.started_in = Batch(first.each_batch, 1)
    with batch_of(first.each_batch):
        batch = stop_in_batch_of(second, driver, first)
        assert first.told.wait(PATIENCE)
        assert not second.batch_ends.wait(0.2)  # it has ended by then, or waits for the end of the other one
    first.batch_ends.set()
    batch.join(PATIENCE)
    assert second.batch_ends.is_set()


def test_a_stop_that_fails_lets_the_batch_go_on(driver: Driver) -> None:
    run = start(driver, "a")

    def fail() -> None:
        raise RuntimeError("boom")

    run.tell = fail
    stop_in_batch_of(run, driver, run).join(PATIENCE)
    assert run.batch_ends.is_set()


def test_a_batch_does_not_wait_for_a_drain_that_waits_for_its_upstream(driver: Driver) -> None:
    start(driver, "a")
    run = start(driver, "b", "a")
    driver._loop.take(ev.TerminationRequested(TerminationRequest("drain-1", 1, Mode.DRAIN)))
    stop_in_batch_of(run, driver, run).join(PATIENCE)
    assert run.batch_ends.is_set()
    assert not run.told.is_set()
