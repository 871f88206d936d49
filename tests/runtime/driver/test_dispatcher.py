"""Which effect is carried out when, and what follows when one fails. Nothing waits here."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import pytest

from streamjob.protocol.engine import effects as fx
from streamjob.protocol.engine import events as ev
from streamjob.protocol.formats.records import JobRef
from streamjob.protocol.graph import TaskName
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Application, DriverConfig
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus
from streamjob.runtime.driver.dispatcher import Dispatcher, EffectQueue, QueuedEffect
from streamjob.runtime.driver.status_board import StatusBoard
from streamjob.runtime.query.figures import Figures

STOP = ev.TerminationRequested(TerminationRequest("stop-1", 1, Mode.STOP))


class Run:
    def __init__(self, uid: str) -> None:
        self.name = TaskName(uid, uid)
        self.uid = self.task = uid
        self.figures = Figures()
        self.over = threading.Event()
        self.failure: Exception | None = None
        self.stopped_by_request = self.was_cut_short = False
        self.takes_over: Run | None = None
        self.brokers = ()

    def continues(self, other: Run) -> bool:
        return self is other or self.takes_over is other

    def cut_short(self) -> None:
        self.was_cut_short = True


class Job:
    """A shell that does nothing by itself: it keeps what it was asked for."""

    def __init__(self) -> None:
        self.queues: list[EffectQueue[Run]] = []
        self.later: list[tuple[float, ev.Event]] = []
        self.interrupted: list[str] = []
        self.over: list[str] = []
        self.terminated = False
        job = JobRef("shop", "orders", "uid-1")
        self.board = StatusBoard(DriverStatus(1, job.uid, 1, DriverPhase.STARTING))
        config = DriverConfig(job, 1, Application("app.py"), "file:/checkpoints")
        self.dispatcher = Dispatcher[Run](config, self.board, self)

    def work_on(self, queue: EffectQueue[Run]) -> None:
        self.queues.append(queue)

    def call_later(self, seconds: float, event: ev.Event) -> None:
        self.later.append((seconds, event))

    def interrupt(self, run: Run) -> None:
        self.interrupted.append(run.task)

    def published(self, over: Sequence[Run]) -> None:
        self.over += [run.task for run in over]

    def on_terminated(self) -> None:
        self.terminated = True

    def start(self, uid: str, *upstream: str, commits: bool = True) -> Run:
        run = Run(uid)
        self.dispatcher.enter(run, ev.TaskStarted(uid, upstream, commits=commits))
        return run

    def next(self, task: str = "") -> tuple[EffectQueue[Run], QueuedEffect[Run]]:
        """The next effect of the newest queue of this task, or of the job."""
        queue = [queue for queue in self.queues if queue.task == task][-1]
        step = self.dispatcher.next(queue)
        assert step is not None
        return queue, step


@pytest.fixture
def job() -> Job:
    return Job()


def test_the_effects_of_one_task_wait_for_each_other(job: Job) -> None:
    job.start("a")
    job.dispatcher.take(ev.CheckpointDue())
    job.dispatcher.take(STOP)
    assert [queue.task for queue in job.queues] == ["a"], "somebody works on it already"
    queue, step = job.next("a")
    assert step.effect == fx.Snapshot("a", 1)
    job.dispatcher.done(queue, step, ev.SnapshotTaken("a", 1, 3))
    assert job.next("a")[1].effect == fx.StopAtBoundary("a")
    assert job.dispatcher.next(queue) is None


def test_a_lane_that_was_empty_is_worked_on_again(job: Job) -> None:
    job.start("a")
    job.dispatcher.take(ev.CheckpointDue())
    queue, step = job.next("a")
    job.dispatcher.done(queue, step, ev.SnapshotTaken("a", 1, 3))
    assert job.dispatcher.next(queue) is None
    job.dispatcher.take(STOP)
    assert [queue.task for queue in job.queues].count("a") == 2


def test_a_savepoint_that_is_written_last_is_announced_before_the_job_has_terminated(job: Job) -> None:
    """The driver exits then: nobody would hear of it."""
    dispatcher = job.dispatcher
    job.start("a")
    dispatcher.take(ev.SavepointRequested("s", "file:/savepoints/s", None))
    queue, step = job.next("a")
    dispatcher.done(queue, step, ev.SnapshotTaken("a", 1, 2))
    dispatcher.next(queue)
    saves, saving = job.next()
    dispatcher.take(ev.InputEnded("a"))
    dispatcher.take(ev.ScriptEnded())
    answers: dict[fx.Effect, ev.Event] = {
        fx.StopAtBoundary("a"): ev.BoundaryReached("a", 3),
        fx.FireMaxWatermark("a"): ev.MaxWatermarkFired("a", 4),
        fx.Finish("a"): ev.Finished("a"),
        fx.Close("a"): ev.Closed("a"),
        fx.AnnounceCheckpoint(2): ev.CheckpointCompleted(2),
    }
    for queue in job.queues:  # also those that come meanwhile
        while queue is not saves and (some := dispatcher.next(queue)) is not None:
            stores = isinstance(some.effect, fx.StoreCheckpoint)
            dispatcher.done(queue, some, ev.CheckpointDurable(2) if stores else answers.get(some.effect))
    assert not job.terminated, "the savepoint is still being written"
    dispatcher.done(saves, saving, ev.CheckpointDurable(1))
    queue, step = job.next()
    assert (step.effect, job.terminated) == (fx.AnnounceCheckpoint(1), False)
    dispatcher.done(queue, step, None)
    assert dispatcher.next(queue) is None
    assert job.terminated


def test_the_effects_of_the_job_do_not_wait_for_those_of_another_event(job: Job) -> None:
    job.start("a")
    for number in (1, 2):
        job.dispatcher.take(ev.CheckpointDue())
        queue, step = job.next("a")
        job.dispatcher.done(queue, step, ev.SnapshotTaken("a", number, 3))
        job.dispatcher.next(queue)
        store, storing = job.next()
        job.dispatcher.done(store, storing, ev.CheckpointDurable(number))
    assert len([queue for queue in job.queues if not queue.task]) == 4, "two to store, two to announce"


def test_a_stop_cuts_a_run_short_and_a_drain_does_not(job: Job) -> None:
    run = job.start("a")
    job.dispatcher.take(ev.TerminationRequested(TerminationRequest("drain-1", 1, Mode.DRAIN)))
    assert not run.was_cut_short
    other = Job()
    run = other.start("a")
    other.dispatcher.take(STOP)
    assert run.was_cut_short


def test_what_ends_a_run_is_dropped_when_another_has_followed(job: Job) -> None:
    first = job.start("a")
    job.dispatcher.take(ev.ScriptStopped("a"))
    job.dispatcher.fail(first, RuntimeError("boom"))
    job.start("a")
    assert job.dispatcher.next(job.queues[0]) is None


def test_what_fails_late_takes_nothing_from_the_run_that_has_followed(job: Job) -> None:
    """The stop of the next run was dropped, and waited for without end."""
    first = job.start("a")
    job.dispatcher.take(ev.ScriptStopped("a"))
    queue, step = job.next("a")
    job.dispatcher.fail(first, RuntimeError("boom"))
    job.start("a")
    job.dispatcher.take(STOP)
    job.dispatcher.failed(queue, step, RuntimeError("the query of the first run has ended"))
    assert job.next("a")[1].effect == fx.StopAtBoundary("a")


def test_a_failed_effect_takes_those_behind_it_along(job: Job) -> None:
    job.start("a")
    job.dispatcher.take(ev.CheckpointDue())
    job.dispatcher.take(ev.ScriptStopped("a"))
    queue, step = job.next("a")
    job.dispatcher.failed(queue, step, RuntimeError("boom"))
    assert job.dispatcher.next(queue) is None
    assert not queue.busy


def test_a_task_that_owes_a_commit_is_not_closed_by_the_end_of_its_upstream(job: Job) -> None:
    """The driver was Terminated then: the controller took the commit for done."""
    job.start("a")
    job.start("b", "a")
    job.dispatcher.take(ev.AllStarted())
    job.dispatcher.take(STOP)
    for task in ("a", "b"):
        queue, step = job.next(task)
        assert isinstance(step.effect, fx.StopAtBoundary)
        job.dispatcher.done(queue, step, ev.BoundaryReached(task, 3))
        assert job.dispatcher.next(queue) is None
    store, storing = job.next()
    job.dispatcher.done(store, storing, ev.CheckpointDurable(1))
    job.dispatcher.take(ev.CheckpointCompleted(1))
    queue, step = job.next("b")
    assert isinstance(step.effect, fx.NotifyComplete)
    job.dispatcher.failed(queue, step, RuntimeError("boom"))
    assert job.dispatcher.next(queue) is None
    queue, step = job.next("a")
    while step is not None:
        job.dispatcher.done(queue, step, ev.Closed("a") if isinstance(step.effect, fx.Close) else None)
        step = job.dispatcher.next(queue)  # type: ignore[assignment]
    assert all(job.dispatcher.next(queue) is None for queue in job.queues if queue.task == "b")
    assert job.board.status.phase is not DriverPhase.TERMINATED
    assert not job.terminated


def test_connected_runs_fail_together_and_others_go_on(job: Job) -> None:
    first, reader, other = job.start("a"), job.start("b", "a"), job.start("c")
    job.dispatcher.fail(first, RuntimeError("boom"))
    assert job.over == ["a", "b"]
    assert (str(first.failure), str(reader.failure), other.failure) == ("boom", "boom", None)
    assert job.interrupted == ["b"], "the query of a has ended by itself"
    assert job.board.status.degraded is not None
    assert job.board.status.degraded.message == "a: boom", "the cause, not what it has brought"
    job.start("a")
    degraded = job.board.status.degraded
    assert degraded is not None
    assert degraded.reason == "QueryFailed"
    assert "stage b does not run: it was interrupted when stage a, " in degraded.message
    assert "boom" in degraded.message
    assert "start both again" in degraded.remedy


def test_a_failed_effect_of_the_job_fails_the_job(job: Job) -> None:
    job.start("a")
    job.dispatcher.take(ev.CheckpointDue())
    queue, step = job.next("a")
    job.dispatcher.done(queue, step, ev.SnapshotTaken("a", 1, 3))
    queue, step = job.next()
    job.dispatcher.failed(queue, step, RuntimeError("boom"))
    assert job.dispatcher.notes.failure is not None
    assert (job.over, job.interrupted) == (["a"], ["a"])


def test_a_failed_effect_of_a_run_ends_its_query(job: Job) -> None:
    """It went on, and committed batches after the final record of the job."""
    job.start("a")
    job.dispatcher.take(STOP)
    queue, step = job.next("a")
    job.dispatcher.failed(queue, step, RuntimeError("boom"))
    assert job.dispatcher.coordinator.failed == ["a"]
    assert job.interrupted == ["a"]
    assert job.dispatcher.notes.failure is None


def test_a_result_that_cannot_be_handled_fails_the_job(job: Job) -> None:
    job.start("a")
    job.dispatcher.take(STOP)
    queue, step = job.next("a")
    job.dispatcher.done(queue, step, ev.BoundaryReached("nobody", 1))
    assert job.dispatcher.notes.failure is not None


def test_events_are_logged_with_their_effects(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    job.start("a")
    with caplog.at_level(logging.DEBUG, "streamjob"):
        job.dispatcher.take(ev.ScriptStopped("a"))
    assert caplog.messages == ["ScriptStopped(task='a'): [StopAtBoundary(task='a')]"]


def test_a_savepoint_is_in_the_status_before_any_of_its_effects(job: Job) -> None:
    job.start("a")
    job.dispatcher.take(ev.SavepointRequested("s-1", "file:/savepoints/1"))
    assert job.board.status.savepoint is not None
    assert job.board.status.savepoint.request_id == "s-1"
    assert job.later, "it has a timeout"


def test_only_the_last_of_two_final_checkpoints_is_written(job: Job) -> None:
    """Connected runs fail one after the other in a stop. Each failure makes the final checkpoint before it
    void, and all of them have the same savepoint.
    """
    first, _ = job.start("orders"), job.start("sums", "orders")
    job.dispatcher.take(STOP)
    job.dispatcher.take(ev.BoundaryReached("sums", 0))
    job.dispatcher.fail(first, RuntimeError("boom"))
    triggered = job.dispatcher.coordinator.next_checkpoint - 1
    written = []
    for queue in [q for q in job.queues if not q.task]:
        while (step := job.dispatcher.next(queue)) is not None:
            if isinstance(step.effect, fx.StoreCheckpoint):
                written.append(step.effect.number)
    assert triggered > 1, "one was aborted"
    assert written == [triggered]
