"""Effects: what the coordinator asks its driver to do. An arrow (→) points to the event that answers.

Two effects are equal if they ask for the same thing. Fields that only explain (positions, targets) are not
compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ..lifecycle import Scenario

Batches = Mapping[str, "int | None"]  # last committed batch of each task, by id; None if there was none


class Timer(str, Enum):
    CHECKPOINT_TIMEOUT = "timeout"
    MIN_PAUSE = "pause"


# --- the end of a task --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StopAtBoundary:
    """Let the running micro-batch commit, and start no other → `BoundaryReached`."""

    task: str


@dataclass(frozen=True)
class CatchUp:
    """EndOfData has arrived from every upstream task: process all that they committed, then stop at the
    boundary → `BoundaryReached`, which acknowledges it.

    :param upstream: the last batch of each upstream task that has started. If there are none: process all
        that the sources hold.
    """

    task: str
    upstream: Batches = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class FireMaxWatermark:
    """Run the max-watermark batch → `MaxWatermarkFired`."""

    task: str


@dataclass(frozen=True)
class Finish:
    """Call endInput() and finish() of all operators, in this order → `Finished`."""

    task: str


@dataclass(frozen=True)
class Close:
    """Call close() of all operators; EndOfPartition has arrived from everything upstream → `Closed`."""

    task: str


@dataclass(frozen=True)
class Cancel:
    """Stop the query now. Nothing is flushed or committed, and no event answers."""

    task: str


# --- checkpoints --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Snapshot:
    """The barrier of checkpoint `number` has arrived on every channel of the task: note its last committed
    batch and pre-commit its sinks up to it → `SnapshotTaken`.

    The driver does not pause the query. It reads the batches for the record again, downstream first, which
    makes the snapshot consistent (ADR 7). The snapshots of one task are taken in the order of the requests. A
    task that has stopped at its boundary takes none, because the event of its end is about to arrive. A task
    whose query has ended by itself, and that has not been asked to stop, answers at once: it may have to wait
    long for its upstream.

    :param upstream: the batches that the upstream tasks had committed at their snapshots.
    """

    task: str
    number: int
    upstream: Batches = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class StoreCheckpoint:
    """Make checkpoint `number` durable → `CheckpointDurable` or `CheckpointFailed`. Tasks that stand at
    their end got no `Snapshot`.

    :param finished: the tasks whose operators the record flags as finished.
    :param batches: the batch of every task of the job except the failed ones. The record of a failed task has
        the last batch that it committed.
    :param pre_commit: tasks that stand at their end, or whose run has failed, each with a checkpoint number.
        The driver first pre-commits what their sinks still hold for that number, unless that has been done.
        It may be the number of an earlier checkpoint that is still pending: under this checkpoint's number,
        the transaction would be aborted if the earlier one completed first.
    :param exhausted: the tasks whose runs have ended because they had consumed all their input.
    :param scenario: what the checkpoint ends, None if the job keeps running.
    :param request_id: the termination or savepoint request that asked for it.
    :param savepoint: URI of the savepoint to write, None if there is none.
    """

    number: int
    finished: frozenset[str]
    batches: Batches = field(default_factory=dict, compare=False)
    pre_commit: Mapping[str, int] = field(default_factory=dict, compare=False)
    exhausted: frozenset[str] = field(default=frozenset(), compare=False)
    scenario: Scenario | None = field(default=None, compare=False)
    request_id: str | None = field(default=None, compare=False)
    savepoint: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class RetryLater:
    """Wait a while → `RetryDue`. The driver chooses how long, because the coordinator has no clock."""


@dataclass(frozen=True)
class AnnounceCheckpoint:
    """Offer the durable checkpoint to the controller, which commits it to the index
    → `CheckpointCompleted`.
    """

    number: int


@dataclass(frozen=True)
class AbortCheckpoint:
    """Abort checkpoint `number`: tasks drop what they noted for it.

    :param reason: for the log and the status.
    :param request_id: the savepoint request that fails with it. None: there is none, or it is tried again.
    :param again: another checkpoint is taken in its place at once, so the abort need not be reported.
    """

    number: int
    reason: str
    request_id: str | None = field(default=None, compare=False)
    again: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class NotifyComplete:
    """notifyCheckpointComplete(number): commit what was pre-committed for it or for an earlier one."""

    task: str
    number: int


@dataclass(frozen=True)
class AbortTransactions:
    """The task ends with checkpoint `after`: abort what its sinks began for later ones."""

    task: str
    after: int


@dataclass(frozen=True)
class StartTimer:
    """Wait `seconds` → `TimerFired(timer, number)`. It may fire late and need not be cancelled."""

    timer: Timer
    number: int
    seconds: float = field(compare=False)


# --- the job ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Terminated:
    """Every task is closed or canceled: the driver may exit."""


Effect = (
    StopAtBoundary
    | CatchUp
    | FireMaxWatermark
    | Finish
    | Close
    | Cancel
    | Snapshot
    | StoreCheckpoint
    | RetryLater
    | AnnounceCheckpoint
    | AbortCheckpoint
    | NotifyComplete
    | AbortTransactions
    | StartTimer
    | Terminated
)
