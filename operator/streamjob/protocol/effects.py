"""What the coordinator asks its driver to do, and the event (→) that answers.

Two effects are equal if they ask for the same; the fields that only explain (positions, targets) are left out of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from .lifecycle import Scenario

Batches = Mapping[str, "int | None"]  # last committed batch of each task, by id; None if there was none


class Timer(str, Enum):
    CHECKPOINT_TIMEOUT = "timeout"
    MIN_PAUSE = "pause"


# --- the end of a task --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StopAtBoundary:
    """Let the running micro-batch commit, start no other → `boundary_reached`."""

    task: str


@dataclass(frozen=True)
class CatchUp:
    """EndOfData has come from every task upstream: process all that they committed (`upstream`: their last batches), then
    stop at the boundary → `boundary_reached`, which acknowledges it. Without any upstream: all that the sources hold."""

    task: str
    upstream: Batches = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class FireMaxWatermark:
    """Run the max-watermark batch → `max_watermark_fired`."""

    task: str


@dataclass(frozen=True)
class Finish:
    """Call endInput() and finish() of all operators, in this order → `finished`."""

    task: str


@dataclass(frozen=True)
class Close:
    """Call close() of all operators; EndOfPartition has come from everything upstream → `closed`."""

    task: str


@dataclass(frozen=True)
class Cancel:
    """Stop the query now. Nothing is flushed, nothing is committed, nobody waits for an answer."""

    task: str


# --- checkpoints --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Snapshot:
    """The barrier of checkpoint `number` has come on every channel of the task: once it has committed what its upstream had
    committed at theirs (`upstream`), hold it at a boundary, pre-commit its sinks, note batch and state
    → `snapshot_taken`. The snapshots of one task are taken in the order in which they are asked for; one that has stopped
    at its boundary takes none, for its end is on its way. One whose query has ended by itself, and that nobody has told to
    stop yet, answers at once: it may wait for its upstream for long."""

    task: str
    number: int
    upstream: Batches = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class StoreCheckpoint:
    """Make checkpoint `number` durable, with the operators of the tasks in `finished` flagged as finished
    → `checkpoint_durable` or `checkpoint_failed`. Tasks that stand at their end got no `Snapshot`.

    :param batches: of every task of the job, but for those that have failed: theirs is the last one that they committed.
    :param pre_commit: tasks that stand at their end, or whose run has failed; what their sinks have left is pre-committed first
        (unless that has been done), for the checkpoint named here. It may be an earlier one that is still under way: were it
        this one, and the earlier one completed first, it would be aborted.
    :param scenario: what it ends, None if the job runs on.
    :param request_id: of the termination or savepoint request that asked for it, with the `savepoint` to write.
    """

    number: int
    finished: frozenset[str]
    batches: Batches = field(default_factory=dict, compare=False)
    pre_commit: Mapping[str, int] = field(default_factory=dict, compare=False)
    scenario: Scenario | None = field(default=None, compare=False)
    request_id: str | None = field(default=None, compare=False)
    savepoint: str | None = field(default=None, compare=False)


@dataclass(frozen=True)
class RetryLater:
    """Wait a while (the driver knows a clock, the coordinator does not) → `retry`."""


@dataclass(frozen=True)
class AnnounceCheckpoint:
    """Offer the durable checkpoint to the index → `checkpoint_completed`."""

    number: int


@dataclass(frozen=True)
class AbortCheckpoint:
    """Forget checkpoint `number`: tasks drop what they noted for it. `reason` is for the log and the status.

    :param request_id: the savepoint request that has failed by this; None if it is none or is tried again.
    :param again: another one is taken in its place at once, so nobody misses it.
    """

    number: int
    reason: str
    request_id: str | None = field(default=None, compare=False)
    again: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class NotifyComplete:
    """notifyCheckpointComplete(number): commit what was pre-committed for it or before."""

    task: str
    number: int


@dataclass(frozen=True)
class AbortTransactions:
    """The task ends with checkpoint `after`: abort what its sinks began for a later one."""

    task: str
    after: int


@dataclass(frozen=True)
class StartTimer:
    """Wait `seconds` → `timer_fired(timer, number)`. It may fire late, and need not be cancelled."""

    timer: Timer
    number: int
    seconds: float = field(compare=False)


# --- the job ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Terminated:
    """Every task is closed, or canceled: the driver may leave."""


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
