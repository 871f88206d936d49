"""What is asked of one run of a query does not reach the run that follows it."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark import SparkContext

from streamjob.protocol.engine import effects as fx
from streamjob.protocol.engine import events as ev
from streamjob.protocol.formats.records import CheckpointRecord, JobRef
from streamjob.protocol.graph import TaskName
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Application, DriverConfig
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus
from streamjob.runtime.driver.checkpoints import RETRY_SECONDS
from streamjob.runtime.driver.event_loop import Loop
from streamjob.runtime.driver.status_board import StatusBoard
from streamjob.runtime.driver.threads import script_threads
from streamjob.runtime.query.figures import Figures
from streamjob.storage.hadoop import StorageError
from streamjob.transactional import TransactionLost

PATIENCE = 20.0


class Run:
    """Stands in for a `Stage`, whose query only Spark has. Its directory answers when it is let."""

    def __init__(self) -> None:
        self.name = TaskName("a", "a")
        self.uid = self.task = "a"
        self.figures = Figures()
        self.failure: Exception | None = None
        self.over, self.reads, self.may_read = threading.Event(), threading.Event(), threading.Event()
        self.interrupted = threading.Event()
        self.transactions = None
        self.failed_by_itself = self.stopped_by_request = False
        self.stopped = 0
        self.takes_over: Run | None = None
        self.brokers = ()
        self.directory = self

    def continues(self, other: Run) -> bool:
        return self is other or self.takes_over is other

    def cause_of(self, error: Exception) -> Exception:
        return error

    def latest_commit(self) -> int:
        self.reads.set()
        assert self.may_read.wait(PATIENCE)
        return 3

    def rest_at_boundary(self, on_wait: Any) -> int:
        return self.stop_at_boundary(on_wait)

    def complete_flush(self, on_wait: Any) -> int | None: ...

    def stop_at_boundary(self, on_wait: Any) -> int:
        self.stopped += 1
        return 3

    def record(self, *args: Any, **options: Any) -> Any:
        raise StorageError("file:/checkpoints", "write", "the disk is full")

    def interrupt(self) -> None:
        """There is no query."""

    cut_short = interrupt


@pytest.fixture
def loop() -> Iterator[Loop]:
    job = JobRef("shop", "orders", "uid-1")
    board = StatusBoard(DriverStatus(1, job.uid, 1, DriverPhase.STARTING))
    made = Loop(DriverConfig(job, 1, Application("app.py"), "file:/checkpoints"), board)
    yield made
    made.terminated.set()
    # A final checkpoint that cannot be written is tried for ever: in the background of all later tests, too.
    made.work.checkpoints._write = lambda effect: periodic(effect.number)  # type: ignore[method-assign]


def start(loop: Loop) -> Run:
    run = Run()
    loop.enter(run, ev.TaskStarted("a"))  # type: ignore[arg-type]
    return run


def await_batch_of(loop: Loop, run: Run) -> None:
    """What its thread had to do before this is done."""
    loop.take(ev.CheckpointDue())
    assert run.reads.wait(PATIENCE)


def test_a_stop_of_a_run_that_has_failed_does_not_stop_the_next_one(loop: Loop) -> None:
    first = start(loop)
    loop.take(ev.CheckpointDue())
    assert first.reads.wait(PATIENCE)
    loop.take(ev.ScriptStopped("a"))  # behind the snapshot, which takes its time
    loop.fail(first, RuntimeError("boom"))  # type: ignore[arg-type]
    second = start(loop)
    first.may_read.set()
    await_batch_of(loop, second)
    assert (first.stopped, second.stopped) == (0, 0)
    second.may_read.set()
    loop.take(ev.ScriptStopped("a"))
    with loop.changed:
        assert loop.changed.wait_for(lambda: second.stopped == 1, PATIENCE)


def test_the_answer_of_a_run_that_has_failed_is_not_the_next_ones(loop: Loop) -> None:
    """The first one fails while it is being stopped."""
    stopping, go_on = threading.Event(), threading.Event()
    first = start(loop)

    def stop_at_boundary(on_wait: Any) -> int:
        stopping.set()
        assert go_on.wait(PATIENCE)
        return 3

    first.stop_at_boundary = stop_at_boundary  # type: ignore[method-assign]
    loop.take(ev.ScriptStopped("a"))
    assert stopping.wait(PATIENCE)
    loop.fail(first, RuntimeError("boom"))  # type: ignore[arg-type]
    second = start(loop)
    second.may_read.set()
    loop.take(ev.ScriptStopped("a"))
    go_on.set()
    with loop.changed:
        assert loop.changed.wait_for(lambda: loop.coordinator.tasks["a"].batch is not None, PATIENCE)
    assert second.stopped == 1


def test_a_final_checkpoint_is_tried_again_soon_whatever_came_before(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    me, sleep = threading.current_thread(), time.sleep

    def note(seconds: float) -> None:
        waits.append(seconds) if threading.current_thread() is me else sleep(seconds)

    monkeypatch.setattr("streamjob.runtime.driver.checkpoints.time.sleep", note)
    run = start(loop)
    run.may_read.set()
    for number in range(1, 4):  # periodic ones, which cannot be written
        loop.work.carry_out(fx.StoreCheckpoint(number, frozenset()), None)
    for _ in range(5):
        loop.work.carry_out(fx.RetryLater(), None)
    assert waits == [*RETRY_SECONDS, RETRY_SECONDS[-1]]


class Transactions:
    """Stands in for those of a sink whose transaction somebody has rolled back by hand."""

    committed = 0

    def pre_commit(self, *_: Any) -> None: ...

    def up_to(self, _: int) -> tuple[str, ...]:
        return ()

    def commit(self, _: int) -> None:
        self.committed += 1
        raise TransactionLost("it is neither there nor committed", remedy="Look for it")


def ended_run(loop: Loop) -> Run:
    """Its script has ended, its input too; its final checkpoint is about to be in the index, and its sink has
    to commit.
    """
    run = start(loop)
    run.transactions = Transactions()  # type: ignore[assignment]
    loop.work.checkpoints._write = lambda effect: periodic(effect.number)  # type: ignore[method-assign]
    loop.take(ev.ScriptEnded())
    loop.take(ev.TerminationRequested(TerminationRequest("r", 1, Mode.STOP, None)))
    with loop.changed:
        announced = lambda: loop._board.status.completed is not None  # noqa: E731
        assert loop.changed.wait_for(announced, PATIENCE)
    return run


def periodic(number: int) -> CheckpointRecord:
    return CheckpointRecord(number, 1, None, None, None, "2026-01-01T00:00:00Z", ())


def test_a_commit_that_is_lost_at_the_end_is_the_jobs_failure(loop: Loop) -> None:
    """It was said to have ended well, with rows that nobody ever saw."""
    run = ended_run(loop)
    loop.take(ev.CheckpointCompleted(1))
    assert run.over.wait(PATIENCE), "whoever waits for it continues"
    assert run.transactions.committed == 1  # type: ignore[attr-defined]
    assert loop.notes.failure is not None
    assert loop.notes.failure.reason == "TransactionLost"
    assert isinstance(run.failure, TransactionLost)
    assert not loop.terminated.is_set()


def test_a_close_that_throws_has_closed(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    run = ended_run(loop)
    run.transactions = None
    monkeypatch.setattr(loop.work, "_call", lambda *_: 1 / 0)
    loop.take(ev.CheckpointCompleted(1))
    assert loop.terminated.wait(PATIENCE)
    assert loop.notes.failure is None
    assert [w.message for w in loop._board.status.warnings] == ["a: division by zero"]


def test_what_the_job_fails_with_when_its_jvm_has_died_is_its_death(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refused connection says nothing to a person."""
    jvm = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    jvm.kill()
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=jvm))
    run = start(loop)
    run.may_read.set()

    def write(effect: Any) -> CheckpointRecord:
        raise ConnectionRefusedError(111, "Connection refused")

    loop.work.checkpoints._write = write  # type: ignore[method-assign]
    loop.take(ev.ScriptEnded())
    loop.take(ev.TerminationRequested(TerminationRequest("r", 1, Mode.STOP, None)))
    assert run.over.wait(PATIENCE)
    assert loop.notes.failure is not None
    assert loop.notes.failure.reason == "JvmDied"


def test_a_thread_that_is_about_to_be_gone_is_not_the_scripts() -> None:
    """Python has deleted by then what it was to call, so nobody can say whose it was (R17, now and then)."""
    at_its_end, go_on = threading.Event(), threading.Event()

    def excepthook(args: Any) -> None:
        at_its_end.set()
        go_on.wait(PATIENCE)

    before, threading.excepthook = threading.excepthook, excepthook
    thread = threading.Thread(target=lambda: 1 / 0)
    try:
        thread.start()
        assert at_its_end.wait(PATIENCE)
        assert thread in threading.enumerate()
        assert thread not in script_threads()
    finally:
        go_on.set()
        thread.join()
        threading.excepthook = before


def test_a_snapshot_reads_the_graph_while_no_query_can_start(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that starts changes the graph: the walk over it would end with an error,
    and the job with it.
    """
    run = start(loop)
    held: list[bool] = []

    def downstream_first() -> list[str]:
        other = threading.Thread(target=lambda: held.append(loop.lock.acquire(timeout=0.1)))
        other.start()
        other.join(PATIENCE)
        return [run.uid]

    monkeypatch.setattr(loop.coordinator, "downstream_first", downstream_first)
    with pytest.raises(StorageError):  # what `Run.record` raises: the graph has been read by then
        loop.work.checkpoints._stages_of(fx.StoreCheckpoint(1, frozenset()))
    assert held == [False]


def test_what_nobody_reports_is_checked_again_after_an_error(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Storage that does not answer for a moment must not end the thread: an early request would wait for
    ever.
    """
    monkeypatch.setattr("streamjob.runtime.driver.event_loop.SAMPLE_SECONDS", 0.01)
    sampled = iter([StorageError("file:/checkpoints", "list", "it does not answer"), None])
    again = threading.Event()

    def on_sample() -> None:
        if (error := next(sampled)) is not None:
            raise error
        again.set()
        loop.terminated.set()

    loop.on_sample = on_sample
    loop.begin()
    assert again.wait(PATIENCE)


def test_a_run_that_starts_while_the_one_before_is_being_ended_takes_over_its_end(loop: Loop) -> None:
    """The script starts the query again at the moment when a drain begins: the drain must come to its end."""
    stopping, go_on = threading.Event(), threading.Event()
    first = start(loop)
    loop.work.checkpoints._write = lambda effect: periodic(effect.number)  # type: ignore[method-assign]
    loop.take(ev.RunEnded("a", exhausted=True))

    def stop_at_boundary(on_wait: Any) -> int:
        stopping.set()
        assert go_on.wait(PATIENCE)
        return 3

    first.stop_at_boundary = stop_at_boundary  # type: ignore[method-assign]
    loop.take(ev.AllStarted())
    loop.take(ev.TerminationRequested(TerminationRequest("r", 1, Mode.DRAIN, None)))
    assert stopping.wait(PATIENCE)
    second = Run()
    with loop.lock:
        assert loop.coordinator.is_ending("a")
        loop.enter(second, ev.TaskStarted("a"))  # type: ignore[arg-type]
    second.may_read.set()
    fired: list[bool] = []
    second.fire_max_watermark = lambda: fired.append(True)  # type: ignore[attr-defined]
    go_on.set()
    with loop.changed:
        assert loop.changed.wait_for(lambda: loop._board.status.completed is not None, PATIENCE)
    assert fired == [True]


def test_a_run_is_marked_before_anybody_learns_that_it_is_interrupted(loop: Loop) -> None:
    run, stopped = start(loop), threading.Event()
    run.interrupt = lambda: stopped.wait(PATIENCE)  # type: ignore[method-assign,assignment]
    loop.fail_job(RuntimeError("boom"))
    assert run.interrupted.is_set()
    stopped.set()


def test_what_an_interrupted_query_ends_with_is_no_failure_of_its_own(loop: Loop) -> None:
    class Query:
        def awaitTermination(self) -> None:
            raise RuntimeError("Job 7 cancelled")

    run = start(loop)
    run.query = Query()  # type: ignore[attr-defined]
    run.interrupted.set()
    loop.watch(run)  # type: ignore[arg-type]
    assert run.failure is None
    run.interrupted.clear()
    loop.watch(run)  # type: ignore[arg-type]
    assert str(run.failure) == "Job 7 cancelled"
