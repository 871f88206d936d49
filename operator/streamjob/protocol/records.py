"""The shape of a completed checkpoint: the same in the driver's report, in the index and in a savepoint's manifest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from .lifecycle import Scenario


class OperatorKind(str, Enum):
    SOURCE = "Source"
    STATE = "State"  # a stateful operator
    SINK = "Sink"
    # Driver-side state, in the tasks' own records:
    LIST = "ListState"  # entries that may move from task to task: the splits of a source
    UNION = "UnionState"  # every task gets the entries of all
    BROADCAST = "BroadcastState"  # the same in every task


class FinishedStatus(str, Enum):
    """How much of a stage, and so of each of its operators, has finished (FLIP-147, "finished status")."""

    NOT = "NotFinished"
    PARTIALLY = "PartiallyFinished"
    FULLY = "FullyFinished"


@dataclass(frozen=True)
class JobRef:
    """Which StreamJob. `uid` is Kubernetes' own: a job made again under the same name is another job."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True)
class OperatorRecord:
    """`finished`: fully, that is in every task of the stage; true only if `finish()` ran before the checkpoint was
    triggered (V6)."""

    uid: str
    kind: OperatorKind
    name: str
    finished: bool


@dataclass(frozen=True)
class TaskRecord:
    """One shard of a stage. `batch` is the last committed batch, None if there was none yet; `location` the
    Structured Streaming checkpoint directory (URI) that holds it.

    :param finished: its `finish()` ran before the checkpoint was triggered.
    :param query_id: Spark's id of the query, where it is known: two queries with one id stop each other.
    :param state: driver-side state, by operator uid. An entry is opaque.
    :param transactions: what its sink has pre-committed and has to commit now that the checkpoint has completed.
    """

    index: int
    location: str
    batch: int | None
    finished: bool = False
    query_id: str | None = None
    state: dict[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    transactions: tuple[str, ...] = ()


@dataclass(frozen=True)
class StageRecord:
    """:param beside: uids of the stages that ran when the script's main thread started this one; None if another thread did. A
    script that waits for one of them without end has this one behind it, unless it has been changed."""

    uid: str
    tasks: tuple[TaskRecord, ...]
    operators: tuple[OperatorRecord, ...]
    beside: tuple[str, ...] | None = None

    @property
    def finished(self) -> bool:
        return bool(self.operators) and all(o.finished for o in self.operators)

    @property
    def status(self) -> FinishedStatus:
        flags = [t.finished for t in self.tasks]
        if self.finished or (flags and all(flags)):
            return FinishedStatus.FULLY
        return FinishedStatus.PARTIALLY if any(flags) else FinishedStatus.NOT


@dataclass(frozen=True)
class CheckpointRecord:
    """A completed checkpoint.

    :param checkpoint: number, growing by one in the life of the job.
    :param scenario: what it ended, None for one taken while the job ran on.
    :param request_id: the termination or savepoint request that asked for it.
    :param savepoint: URI of the copy, None for a retained checkpoint only.
    :param completed_at: RFC 3339, UTC, seconds.
    """

    checkpoint: int
    epoch: int
    scenario: Scenario | None
    request_id: str | None
    savepoint: str | None
    completed_at: str
    stages: tuple[StageRecord, ...]

    @property
    def uncommitted(self) -> bool:
        """A sink may still have to commit what is pre-committed for it."""
        return any(t.transactions for s in self.stages for t in s.tasks)

    @property
    def committed(self) -> CheckpointRecord:
        """The same, with nothing left to commit."""
        stages = tuple(
            replace(s, tasks=tuple(replace(t, transactions=()) for t in s.tasks)) for s in self.stages
        )
        return replace(self, stages=stages)

    @property
    def drained(self) -> bool:
        """Every operator finished: there is nothing left to resume."""
        return bool(self.stages) and all(s.finished for s in self.stages)
