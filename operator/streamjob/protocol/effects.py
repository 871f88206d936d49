"""What the coordinator asks its driver to do. Each names the task or checkpoint it is about and nothing else."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StopAtBoundary:
    """Let the running micro-batch commit, start no other → `boundary_reached`."""

    task: str


@dataclass(frozen=True)
class FireMaxWatermark:
    """Run the max-watermark batch → `max_watermark_fired`."""

    task: str


@dataclass(frozen=True)
class Finish:
    """Call endInput() and finish() of all operators, in this order → `finished`."""

    task: str


@dataclass(frozen=True)
class StoreCheckpoint:
    """Make checkpoint `number` durable, with the operators of the tasks in `finished` flagged as finished
    → `checkpoint_durable` or `checkpoint_failed`."""

    number: int
    finished: frozenset[str]


@dataclass(frozen=True)
class RetryLater:
    """Wait a while (the driver knows a clock, the coordinator does not) → `retry`."""


@dataclass(frozen=True)
class AnnounceCheckpoint:
    """Offer the durable checkpoint to the index → `checkpoint_completed`."""

    number: int


@dataclass(frozen=True)
class NotifyComplete:
    """notifyCheckpointComplete(number): commit what was pre-committed for it or before."""

    task: str
    number: int


@dataclass(frozen=True)
class Close:
    """Call close() of all operators → `closed`."""

    task: str


@dataclass(frozen=True)
class Terminated:
    """Every task is closed: the driver may leave."""


Effect = (
    StopAtBoundary
    | FireMaxWatermark
    | Finish
    | StoreCheckpoint
    | RetryLater
    | AnnounceCheckpoint
    | NotifyComplete
    | Close
    | Terminated
)
