"""Events: what the coordinator is told, as values. The driver logs them, and tests replay them.

`Coordinator.handle` takes one. Many answer an effect (see `effects`). An event that was already handled
returns no effects again.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..messages.commands import TerminationRequest
from .effects import Timer

# --- the job ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Restored:
    """What the job resumes from is known only now. Comes before the first task, and at most once.

    :param expected: as `coordinator.Coordinator`.
    :param fresh: as `coordinator.Coordinator`.
    :param edges: as `coordinator.Coordinator`.
    """

    next_checkpoint: int
    expected: tuple[str, ...] = ()
    fresh: bool = False
    edges: tuple[tuple[str, str], ...] = ()


# --- tasks --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskStarted:
    """A query runs, for the first time or again. A query that starts during a termination ends at its first
    boundary.

    A pending checkpoint does not have the new run, so it is aborted and triggered again.

    :param upstream: uids of the stages that the query reads from, started or not.
    :param commits: False if the sink is durable after each batch and has nothing to commit (row 12).
    :param own_sources: whether the query reads something that no stage writes. None: only if it has no
        upstream stage.
    :param drained: an earlier epoch fired the query's max watermark, or that of a query that reads from it.
        It reads nothing, and ends as it began to end.
    :param emits: its end may bring out rows of earlier epochs: it has state, or a batch to run again.
    """

    task: str
    upstream: tuple[str, ...] = ()
    commits: bool = True
    own_sources: bool | None = None
    drained: bool = False
    emits: bool = True


@dataclass(frozen=True)
class TaskRestoredFinished:
    """The restored checkpoint flags the task as finished: it does not start, its flag stays (row 10)."""

    task: str
    upstream: tuple[str, ...] = ()
    batch: int | None = None


@dataclass(frozen=True)
class StageExpected:
    """The stage will have `parallelism` tasks.

    Until each has started or is reported as finished, nothing downstream of them ends: a task that ends early
    does not end the stage (row 9).
    """

    uid: str
    parallelism: int


@dataclass(frozen=True)
class EdgeDeclared:
    """A running stage reads from another stage, started or not. The script declares it, because the queries
    do not show it.

    :param own_sources: the stage also reads something that no stage writes.
    """

    uid: str
    upstream: str
    own_sources: bool = False


@dataclass(frozen=True)
class InputEnded:
    """All sources of the task ran out, as its script has declared: the query stands at a boundary, or will
    stop at the next.

    In the middle of the graph this is not the end: input arrives until everything upstream has ended.

    :param rest: the sources get no more input, but what they hold now has yet to be processed.
    """

    task: str
    rest: bool = False


@dataclass(frozen=True)
class RunEnded:
    """The query has ended by itself and without an error.

    :param exhausted: its trigger (availableNow, once) had consumed all there was. Otherwise somebody has
        stopped it.
    :param rest: its trigger is such a one, but its sources may have held more when it began.
    """

    task: str
    exhausted: bool
    rest: bool = False


@dataclass(frozen=True)
class ScriptStopped:
    """The script called query.stop() or spark.stop(). It may start the query again, so nothing is flushed.

    During a termination the query ends as the job does. But in a drain it does not wait for a stage that
    cannot end before the script continues: one that the script has yet to start.
    """

    task: str


@dataclass(frozen=True)
class BoundaryReached:
    """The query has stopped with offsets.latest == commits.latest == `batch`.

    :param rest: after a `CatchUp`: whether the query has read everything cannot be established. It is stopped
        where it is, not flushed, and so is what reads from it.
    """

    task: str
    batch: int | None
    rest: bool = False


@dataclass(frozen=True)
class MaxWatermarkFired:
    """All event-time timers of the task have fired, and their output is committed as `batch`."""

    task: str
    batch: int | None


@dataclass(frozen=True)
class Finished:
    """endInput() and finish() of all operators have returned."""

    task: str


@dataclass(frozen=True)
class Closed:
    """close() of all operators has returned."""

    task: str


@dataclass(frozen=True)
class TaskFailed:
    """The query died, or a step of its termination failed. Other tasks keep running; what is durable stays.

    After its final checkpoint a task can no longer fail. This driver or the next one commits what is left to
    commit, and a close() that raises still counts as a close.
    """

    task: str


# --- the script ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AllStarted:
    """The script waits for its queries: nothing waits any longer for stages not started by now, except those
    of the restored checkpoint that have something left.

    :param left: the uids of those.
    """

    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class ScriptBlocked:
    """The script waits without limit for a query that does not end by itself, and nothing else in the script
    could start a query.

    So no other run follows for the stages that have exhausted their input and that a running stage waits for:
    their input has ended. The driver must repeat this event whenever a run has ended and the script still
    waits.
    """


@dataclass(frozen=True)
class ScriptEnded:
    """The script has ended, with all of its threads: no other run follows. Exhausted input has ended for
    good. Queries that still run keep the job running until they end.

    :param left: the uids of stages of the restored checkpoint that have something left and have not started.
        They count as stopped: another epoch continues them.
    """

    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class SessionEnded:
    """The Spark session of the exhausted stages ends, so they can no longer be flushed: they stay as they
    are, as if they had been stopped.
    """


# --- requests -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TerminationAnnounced:
    """A request will follow once the script has started its queries.

    Until then the end of an input begins nothing: otherwise a stop could find stages flushed that it should
    only stop. The driver must also send this event before it starts a task that must not read any more.
    """


@dataclass(frozen=True)
class TerminationRequested:
    """End the job with a savepoint, as the request's mode says.

    A stop ends every running task; a task that is catching up with its upstream stops where it is. A drain
    ends the tasks that have no upstream; the others follow when their upstream has ended. Tasks that are
    already ending continue in their own way and wait for the request's checkpoint. A requested savepoint that
    is not durable yet is aborted.
    """

    request: TerminationRequest


@dataclass(frozen=True)
class SavepointRequested:
    """Copy a checkpoint to `savepoint` while the job keeps running. A repeated request changes nothing.

    Neither the pause nor the limit on periodic checkpoints delays it (row 13). A failed write is retried
    until the timeout.

    :param timeout: seconds from the first attempt. None: as for periodic checkpoints.
    """

    request_id: str
    savepoint: str
    timeout: float | None = None


@dataclass(frozen=True)
class CancelRequested:
    """End now, even in the middle of a stuck stop: nothing is flushed or committed (row 13)."""


# --- checkpoints --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckpointDue:
    """The driver's timer requests a periodic checkpoint. A termination takes its own one instead."""


@dataclass(frozen=True)
class SnapshotTaken:
    """The task has noted its state at `batch` and keeps running.

    It may not have read all that its upstream had committed at its own snapshots: that is durable, and read
    after a restore (ADR 7).
    """

    task: str
    number: int
    batch: int | None


@dataclass(frozen=True)
class CheckpointDurable:
    """The checkpoint's record, and the savepoint's manifest if one is written, can no longer be lost."""

    number: int


@dataclass(frozen=True)
class CheckpointFailed:
    """The checkpoint could not be written. A periodic one is aborted. Any other one is triggered again after
    `RetryDue`. No task has ended.
    """

    number: int


@dataclass(frozen=True)
class RetryDue:
    """The wait after `CheckpointFailed` is over."""


@dataclass(frozen=True)
class CheckpointCompleted:
    """The checkpoint is committed to the index: notifyCheckpointComplete. Late, repeated, overtaken and
    unknown numbers are allowed.
    """

    number: int


@dataclass(frozen=True)
class TimerFired:
    """A timer of `StartTimer` has expired. A timer that is no longer needed changes nothing."""

    timer: Timer
    number: int


CheckpointEvent = (
    CheckpointDue
    | SnapshotTaken
    | CheckpointDurable
    | CheckpointFailed
    | RetryDue
    | CheckpointCompleted
    | TimerFired
)
Event = (
    Restored
    | TaskStarted
    | TaskRestoredFinished
    | StageExpected
    | EdgeDeclared
    | InputEnded
    | RunEnded
    | ScriptStopped
    | BoundaryReached
    | MaxWatermarkFired
    | Finished
    | Closed
    | TaskFailed
    | AllStarted
    | ScriptBlocked
    | ScriptEnded
    | SessionEnded
    | TerminationAnnounced
    | TerminationRequested
    | SavepointRequested
    | CancelRequested
    | CheckpointEvent
)
