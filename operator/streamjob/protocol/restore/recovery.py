"""From a completed checkpoint to the tasks that start (FLIP-147, "recovery"). Stages are matched by uid and
nothing else.

A fully finished stage is not started again. A partially finished stage starts its unfinished tasks or, with
another parallelism, redistributes their remaining work. A start that cannot be right is refused before
anything starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from ..errors import StreamJobError
from ..formats.records import CheckpointRecord, FinishedStatus, OperatorKind, StageRecord, TaskRecord
from ..graph import parse_task_id, task_id
from ..messages.driver_config import Restore
from . import finished

State = dict[str, tuple[str, ...]]


class UnfinishedBeforeFinished(StreamJobError):
    """A finished stage would get data after its end."""

    reason = "UnfinishedBeforeFinished"


class NonRestoredState(StreamJobError):
    reason = "StateWithoutStage"


class AlreadyDrained(StreamJobError):
    reason = "AlreadyDrained"


class StateCannotMove(StreamJobError):
    """The parallelism has changed, but only the task that has the state can continue with it."""

    reason = "ParallelismChanged"


class Start(str, Enum):
    NEW = "New"  # without state
    RESUME = "Resume"  # at `record.batch`, in its own directory
    REDISTRIBUTED = "Redistributed"  # in a new directory, with its share of the state in `state`
    FINISHED = "Finished"  # not started


@dataclass(frozen=True)
class TaskPlan:
    """How a task starts.

    :param record: what the checkpoint has of the task, None if nothing.
    """

    task: str
    start: Start
    record: TaskRecord | None = None
    state: State = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class StagePlan:
    """How the tasks of a stage start. `started` is False if the stage is fully finished."""

    uid: str
    tasks: tuple[TaskPlan, ...]

    @property
    def started(self) -> bool:
        return any(t.start is not Start.FINISHED for t in self.tasks)


def unfinished_tasks(record: CheckpointRecord | None) -> tuple[str, ...]:
    """For the coordinator: the tasks of the restored checkpoint that have not finished.

    Nothing downstream of them ends before they have started, or the script has ended.
    """
    return tuple(
        task_id(stage.uid, task.index, len(stage.tasks))
        for stage in (record.stages if record else ())
        for task in stage.tasks
        if not task.finished
    )


def recorded_edges(record: CheckpointRecord | None) -> tuple[tuple[str, str], ...]:
    """For the coordinator: the edges of the restored checkpoint, as (writer, reader)."""
    stages = record.stages if record else ()
    known = {s.uid for s in stages}
    return tuple((writer, s.uid) for s in stages for writer in s.upstream if writer in known)


def spent(stages: Iterable[StageRecord]) -> set[str]:
    """The uids of stages from which nothing more comes, though they have not finished.

    They had consumed their input, have no state, and everything upstream of them is spent or has finished.

    A script whose backfill is done has no need to start it again.
    """
    by_uid = {s.uid: s for s in stages}
    found = {s.uid for s in by_uid.values() if not s.finished and s.exhausted and not s.has_state}
    while True:
        open_ = {uid for uid, s in by_uid.items() if uid not in found and not s.finished}
        kept = {uid for uid in found if open_.isdisjoint(by_uid[uid].upstream)}
        if kept == found:
            return found
        found = kept


def left_behind(stages: Iterable[StageRecord], *, exact: bool) -> list[str]:
    """The uids of stages that a script leaves behind if it does not start them again: those that have not
    finished, or have something to commit.

    :param exact: no driver has run since the record was made. Otherwise one may have begun to read on with a
        stage that is `spent`, and have died.
    """
    known = tuple(stages)
    nothing_left = spent(known) if exact else set()
    return [s.uid for s in known if s.holds_transactions or not (s.finished or s.uid in nothing_left)]


def refuse_if_over(restore: Restore) -> None:
    """Refuse to resume a job whose latest checkpoint was drained.

    One with uncommitted transactions is restored only to commit them.

    :raises AlreadyDrained: nothing is left to resume (row 14).
    """
    latest = restore.latest
    over = latest is not None and latest.over and not latest.uncommitted and not restore.again
    if latest is not None and over and not restore.allow_drained:
        raise AlreadyDrained(
            f"checkpoint {latest.checkpoint} was drained: its windows are out, a job resumed from it would "
            "drop every row",
            remedy="<New-job> <and-allow-drained>",
        )


def unfinished_before_finished(source: str, uid: str, *, new: bool = False) -> UnfinishedBeforeFinished:
    return UnfinishedBeforeFinished(
        f"stage {uid!r} has finished, and stage {source!r} before it is {'new' if new else 'not finished'}: "
        "what it produces would never be read",
        remedy=f"Let a stage with another name than {uid!r} read from {source!r}, "
        "or restore a checkpoint from before the end",
    )


def stage_plan(uid: str, parallelism: int, record: StageRecord | None) -> StagePlan:
    """How the tasks of one stage start. The stage may be all that is known of the job so far.

    :param record: what the checkpoint has of the stage, None if nothing.
    :raises StateCannotMove: see there.
    """
    return _stage(uid, [task_id(uid, index, parallelism) for index in range(parallelism)], record)


def _stage(uid: str, tasks: Iterable[str], record: StageRecord | None) -> StagePlan:
    names = tuple(tasks)
    if record is None or not record.tasks:
        return StagePlan(uid, tuple(TaskPlan(name, Start.NEW) for name in names))
    by_index = {t.index: t for t in record.tasks}
    if record.status is FinishedStatus.FULLY:
        return StagePlan(
            uid, tuple(TaskPlan(n, Start.FINISHED, by_index.get(parse_task_id(n)[1])) for n in names)
        )
    if set(by_index) != {parse_task_id(n)[1] for n in names}:
        return StagePlan(uid, _redistributed(names, record))
    # In place each task keeps its own state, even union state of a partially finished stage.
    return StagePlan(uid, tuple(_in_place(uid, len(names), by_index[i]) for i in sorted(by_index)))


def _in_place(uid: str, parallelism: int, record: TaskRecord) -> TaskPlan:
    start = Start.FINISHED if record.finished else Start.RESUME
    return TaskPlan(task_id(uid, record.index, parallelism), start, record, record.state)


def _redistributed(names: tuple[str, ...], record: StageRecord) -> tuple[TaskPlan, ...]:
    """Redistribute the state of a stage whose parallelism has changed.

    :raises StateCannotMove: keyed state, or a position that is only in Spark's own offsets.
    """
    keyed = [o.uid for o in record.operators if o.kind is OperatorKind.STATE]
    lists = [o.uid for o in record.operators if o.kind is OperatorKind.LIST]
    if keyed or not lists:
        why = f"the state of {', '.join(keyed)} is" if keyed else "its position in the input is"
        raise StateCannotMove(
            f"stage {record.uid!r} had {len(record.tasks)} tasks and has {len(names)} now, and {why} in "
            "Spark's own files, one directory for each task",
            remedy=f"Give it parallelism {len(record.tasks)} again",
        )
    states: list[State] = [{} for _ in names]
    for kind in (OperatorKind.LIST, OperatorKind.UNION, OperatorKind.BROADCAST):
        for operator, assigned in _distribute(record, kind, len(names)).items():
            for state, entries in zip(states, assigned, strict=True):
                state[operator] = entries
    return tuple(TaskPlan(n, Start.REDISTRIBUTED, None, s) for n, s in zip(names, states, strict=True))


def _distribute(
    record: StageRecord, kind: OperatorKind, parallelism: int
) -> dict[str, tuple[tuple[str, ...], ...]]:
    """For each operator of this kind: what each of `parallelism` tasks gets."""
    assigned = {}
    gone = [t.index for t in record.tasks if t.finished]
    for operator in [o.uid for o in record.operators if o.kind is kind]:
        held = {t.index: t.state[operator] for t in record.tasks if operator in t.state}
        if kind is OperatorKind.LIST:
            assigned[operator] = finished.redistribute(
                [held[i] for i in sorted(set(held) - set(gone))], parallelism
            )
        elif kind is OperatorKind.UNION:
            everyone = {t.index: held.get(t.index, ()) for t in record.tasks}
            assigned[operator] = finished.union(operator, everyone, gone, parallelism)
        else:
            assigned[operator] = finished.broadcast(operator, held, gone, parallelism)
    return assigned
