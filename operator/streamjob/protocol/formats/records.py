"""The shape of a completed checkpoint: in the driver's report, in the index and in a savepoint's manifest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

from ..lifecycle import Scenario
from . import codec


class OperatorKind(str, Enum):
    SOURCE = "Source"
    STATE = "State"  # a stateful operator
    SINK = "Sink"
    # Driver-side state, in the tasks' own records:
    LIST = "ListState"  # entries that may move between tasks, such as the splits of a source
    UNION = "UnionState"  # every task gets the entries of all tasks
    BROADCAST = "BroadcastState"  # the same entries in every task


class FinishedStatus(str, Enum):
    """How much of a stage, and so of each of its operators, has finished (FLIP-147, "finished status")."""

    NOT = "NotFinished"
    PARTIALLY = "PartiallyFinished"
    FULLY = "FullyFinished"


@dataclass(frozen=True)
class JobRef:
    """Identifies a StreamJob by Kubernetes' own `uid`: a job recreated under the same name is another job."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True)
class OperatorRecord:
    """An operator of a stage.

    :param finished: the operator has fully finished, in every task of the stage. True only if `finish()` ran
        before the checkpoint was triggered (V6).
    """

    uid: str
    kind: OperatorKind
    name: str
    finished: bool


@dataclass(frozen=True)
class TaskRecord:
    """One shard of a stage.

    :param location: the Structured Streaming checkpoint directory (URI) that holds `batch`.
    :param batch: the last committed batch, None if there was none yet.
    :param finished: its `finish()` ran before the checkpoint was triggered.
    :param query_id: Spark's id of the query, if known: two queries with one id stop each other.
    :param state: driver-side state, by operator uid. An entry is opaque.
    :param transactions: what its sink has pre-committed and has to commit now that the checkpoint has
        completed.
    :param exhausted: its last run ended by itself, because its trigger (availableNow, once) had consumed all
        the input there was, and no other run has begun since. Missing in older records.
    """

    index: int
    location: str
    batch: int | None
    finished: bool = False
    query_id: str | None = None
    state: dict[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    transactions: tuple[str, ...] = ()
    exhausted: bool = False


@dataclass(frozen=True)
class StageRecord:
    """A stage.

    :param beside: uids of the stages that ran when the script's main thread started this one; None if another
        thread started it. Unless the script has changed, it has already started this stage when it waits
        without limit for one of those.
    :param upstream: uids of the stages that it reads from, as far as they were known. Empty in older records.
    :param carried_from: the script had not started the stage when the checkpoint was taken, so this is what
        an earlier checkpoint, of this number, has of it; None if it had.
    """

    uid: str
    tasks: tuple[TaskRecord, ...]
    operators: tuple[OperatorRecord, ...]
    beside: tuple[str, ...] | None = None
    upstream: tuple[str, ...] = field(default=(), metadata=codec.NEW)
    carried_from: int | None = field(default=None, metadata=codec.NEW)

    @property
    def holds_transactions(self) -> bool:
        """Whether a sink may still have to commit what it pre-committed."""
        return any(t.transactions for t in self.tasks)

    @property
    def finished(self) -> bool:
        return bool(self.operators) and all(o.finished for o in self.operators)

    @property
    def status(self) -> FinishedStatus:
        flags = [t.finished for t in self.tasks]
        if self.finished or (flags and all(flags)):
            return FinishedStatus.FULLY
        return FinishedStatus.PARTIALLY if any(flags) else FinishedStatus.NOT

    @property
    def exhausted(self) -> bool:
        """Whether all of its tasks had consumed their input, and none has anything left to commit.

        A script that runs again has no need to start the stage again.
        """
        done = all(t.exhausted or t.finished for t in self.tasks)
        return bool(self.tasks) and done and not self.holds_transactions

    @property
    def has_state(self) -> bool:
        """Whether it has more than a position in its input: Spark's own state or driver-side state."""
        bare = (OperatorKind.SOURCE, OperatorKind.SINK)
        return any(o.kind not in bare for o in self.operators) or any(t.state for t in self.tasks)


@dataclass(frozen=True)
class CheckpointRecord:
    """A completed checkpoint.

    :param checkpoint: its number. Numbers grow over the life of the job; those of aborted checkpoints are
        missing.
    :param scenario: what the checkpoint ended, None if the job kept running.
    :param request_id: the termination or savepoint request that asked for it.
    :param savepoint: URI of the copy, None if this is only a retained checkpoint.
    :param completed_at: RFC 3339, UTC, seconds.
    :param after_end: it is a savepoint on demand, and its script and all stages had ended: their windows are
        out.
    """

    checkpoint: int
    epoch: int
    scenario: Scenario | None
    request_id: str | None
    savepoint: str | None
    completed_at: str
    stages: tuple[StageRecord, ...]
    after_end: bool = field(default=False, metadata=codec.NEW)

    @property
    def uncommitted(self) -> bool:
        """Whether a sink of this checkpoint's epoch may still have to commit what it pre-committed for it.

        A stage that the script had not started has no sink in that epoch.
        """
        return any(s.holds_transactions for s in self.stages if s.carried_from is None)

    @property
    def committed(self) -> CheckpointRecord:
        """The same record with nothing left to commit for the sinks of its epoch."""
        stages = tuple(
            s
            if s.carried_from is not None
            else replace(s, tasks=tuple(replace(t, transactions=()) for t in s.tasks))
            for s in self.stages
        )
        return replace(self, stages=stages)

    @property
    def drained(self) -> bool:
        """Whether every operator has finished, so that no query is left to resume."""
        return bool(self.stages) and all(s.finished for s in self.stages)

    @property
    def over(self) -> bool:
        """Whether nothing is left to resume: unless the job has ended, its script may have more to start."""
        return self.drained and self.scenario is not None and self.scenario.is_drain

    @property
    def leaves_nothing(self) -> bool:
        """Whether another job has nothing to resume from it. As `over`, also for a savepoint that was still
        written when its job had ended.
        """
        return self.over or self.after_end
