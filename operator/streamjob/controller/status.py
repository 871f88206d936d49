"""What the status says: pure functions from what was seen to the fields, conditions and Events that people read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import TypeVar

from ..api import (
    AbortedCheckpointStatus,
    CheckpointStatus,
    Condition,
    ConditionType,
    DriverInfo,
    ErrorStatus,
    OperatorInfo,
    Phase,
    SavepointStatus,
    StageInfo,
    Status,
    StreamJob,
    TaskInfo,
    TerminationInfo,
    UpgradeStatus,
    UpgradeStep,
)
from ..api.types import moment, timestamp
from ..protocol.index import Index
from ..protocol.messages import DriverStatus, Problem, StageStatus
from ..protocol.records import CheckpointRecord
from .lastwords import without_secrets
from .observe import Observed, Pod

S = TypeVar("S")

# A phase in which the job is what the spec asks for, and those in which work is under way. What is in neither has failed.
REACHED = {Phase.RUNNING, Phase.STOPPED, Phase.DRAINED, Phase.FINISHED, Phase.CANCELLED}
UNDER_WAY = {
    Phase.PENDING,
    Phase.STARTING,
    Phase.STOPPING,
    Phase.DRAINING,
    Phase.CANCELLING,
    Phase.RESTARTING,
}
NOT_MADE = "NotMade"  # in the place of a driver pod's phase
UPGRADED = {  # the condition
    UpgradeStep.PENDING: "False",
    UpgradeStep.STOPPING: "Unknown",
    UpgradeStep.STARTING: "Unknown",
    UpgradeStep.COMPLETED: "True",
    UpgradeStep.ROLLED_BACK: "False",
}
ROLLED_BACK = "RolledBack"
ROLLED_BACK_REMEDY = "The job goes on with what ran before. Mend the spec, or set it back; restart.nonce has it tried once more"
WARNINGS = {Phase.RESTARTING, Phase.FAILED}


@dataclass(frozen=True)
class Event:
    """A Kubernetes Event: `reason` is stable and CamelCase."""

    warning: bool
    reason: str
    message: str


# --- from what was seen ------------------------------------------------------------------------------------------


def seen(o: Observed) -> Status:
    """The old status with everything in it that follows from observation alone. Nothing in it goes back (V7)."""
    old, pod, word = o.job.status, o.pod, o.word
    latest = o.index.latest if o.index else None
    savepoint = o.index.latest_savepoint if o.index else None
    started = [p.epoch for p in o.pods if p.started] + ([latest.epoch] if latest else [])
    if pod is None and old.driver is not None and old.driver.uid is None and old.driver.phase != NOT_MADE:
        started.append(old.epoch)  # it may have been made, and have run, and be gone, while nobody looked
    return old.model_copy(
        update={
            "observed_generation": o.job.metadata.generation,
            "epoch": o.epoch,
            "started_epoch": max([old.started_epoch, *started]),
            "driver": _driver(pod, old.driver) if pod else old.driver,
            "stages": _stages(word, old.stages) or old.stages,
            "checkpoint": _newer(old.checkpoint, _checkpoint(latest) if latest else None, lambda c: c.latest),
            "aborted_checkpoint": _aborted(word) or old.aborted_checkpoint,
            "savepoint": _newer(
                old.savepoint, _savepoint(savepoint) if savepoint else None, lambda s: s.checkpoint
            ),
            "termination": _termination(old.termination, word, o.index),
        }
    )


def _newer(old: S | None, new: S | None, number: Callable[[S], int]) -> S | None:
    """The index may have been read before, and the status after, another controller has written both."""
    return old if new is None or (old is not None and number(old) > number(new)) else new


def final(record: CheckpointRecord | None) -> bool:
    """A checkpoint with which an epoch ended, not one taken while it ran on."""
    return record is not None and record.scenario is not None


def drained(record: CheckpointRecord | None) -> bool:
    """There is nothing left to resume. A record cut down for a final report has no stages: its scenario says it too."""
    return record is not None and (
        record.drained or (record.scenario is not None and record.scenario.is_drain)
    )


def _driver(pod: Pod, old: DriverInfo | None) -> DriverInfo | None:
    if old is None and pod.deleting and not pod.started:
        return None  # given up before it began
    started = timestamp(pod.started_at) if pod.started_at else None
    if started is None and old is not None and old.uid == pod.uid:
        started = old.started_at
    return DriverInfo(pod=pod.name, uid=pod.uid, phase=pod.phase, started_at=started)


def _stages(word: DriverStatus | None, old: tuple[StageInfo, ...]) -> tuple[StageInfo, ...]:
    """A final report may have had no room for the operators: what is known of them stays."""
    known = {s.uid: s.operators for s in old}
    return tuple(_stage(s, known.get(s.uid, ())) for s in word.stages) if word else ()


def _stage(stage: StageStatus, known: tuple[OperatorInfo, ...]) -> StageInfo:
    batches = [t.batch for t in stage.tasks if t.batch is not None]
    rate = stage.input_rows_per_second
    return StageInfo(
        uid=stage.uid,
        tasks=tuple(TaskInfo(index=t.index, state=t.state.value, batch=t.batch) for t in stage.tasks),
        operators=tuple(
            OperatorInfo(uid=o.uid, kind=o.kind.value, name=o.name, finished=o.finished)
            for o in stage.operators
        )
        or known,
        watermark=stage.watermark,
        batch=max(batches) if batches else None,
        input_rows_per_second=round(rate, 1) if rate is not None else None,
    )


def _checkpoint(record: CheckpointRecord) -> CheckpointStatus:
    return CheckpointStatus(latest=record.checkpoint, epoch=record.epoch, completed_at=record.completed_at)


def _aborted(word: DriverStatus | None) -> AbortedCheckpointStatus | None:
    if word is None or word.aborted is None:
        return None
    said = word.aborted
    return AbortedCheckpointStatus(
        checkpoint=said.checkpoint, epoch=word.epoch, reason=said.reason, time=said.time
    )


def _savepoint(record: CheckpointRecord) -> SavepointStatus:
    return SavepointStatus(
        latest=record.savepoint or "",
        checkpoint=record.checkpoint,
        completed_at=record.completed_at,
        drained=drained(record),
    )


def _termination(
    old: TerminationInfo | None, word: DriverStatus | None, index: Index | None
) -> TerminationInfo | None:
    """How far the recorded termination is: in the driver's words until its checkpoint is in the index."""
    if old is None:
        return None
    said = word.termination if word else None
    if said is not None and said.request_id == old.request_id:
        old = old.model_copy(
            update={
                "step": said.step.value,
                "progress": said.progress or None,
                "flushed_rows": said.flushed_rows if said.flushed_rows is not None else old.flushed_rows,
            }
        )
    record = next((c for c in index.checkpoints if c.request_id == old.request_id), None) if index else None
    if record is not None:
        old = old.model_copy(update={"final_checkpoint": record.checkpoint, "progress": None})
    return old


# --- what it means -----------------------------------------------------------------------------------------------


def settle(
    s: Status,
    job: StreamJob,
    now: datetime,
    phase: Phase,
    reason: str,
    message: str,
    *,
    stalled: bool = False,
) -> Status:
    """The status in `phase`, with the three conditions that follow. `stalled`: nothing moves until a person acts."""
    stalled = stalled or phase is Phase.FAILED
    flags = {
        ConditionType.READY: phase in REACHED and not stalled,
        ConditionType.RECONCILING: phase in UNDER_WAY and not stalled,
        ConditionType.STALLED: stalled,
    }
    conditions = tuple(
        _condition(s, job, now, kind, "True" if flag else "False", reason, message)
        for kind, flag in flags.items()
    )
    if s.upgrade is not None:
        told = how_it_went(s.upgrade)
        value = UPGRADED[s.upgrade.step]
        conditions += (_condition(s, job, now, ConditionType.UPGRADED, value, told.reason, told.message),)
    return s.model_copy(update={"phase": phase, "conditions": conditions})


def fail(s: Status, problem: Problem, now: datetime) -> Status:
    """The status with `problem` as its last error; the time stays while it is the same one."""
    problem = replace(problem, message=without_secrets(problem.message))
    old = s.last_error
    if old is not None and (old.reason, old.message, old.remedy) == (
        problem.reason,
        problem.message,
        problem.remedy,
    ):
        return s
    error = ErrorStatus(
        reason=problem.reason, message=problem.message, remedy=problem.remedy, time=timestamp(now)
    )
    return s.model_copy(update={"last_error": error})


def not_made(s: Status) -> Status:
    """The API server said no while the driver that is recorded was to be made: it has certainly not run."""
    if s.driver is None or s.driver.uid is not None:
        return s
    return s.model_copy(update={"driver": s.driver.model_copy(update={"phase": NOT_MADE})})


def sentence(problem: Problem) -> str:
    """What happened and what to do about it."""
    # A driver's problem may quote what its script has raised.
    message = without_secrets(problem.message).rstrip(". \n") + "."
    return f"{message} {problem.remedy.rstrip('. ')}." if problem.remedy else message


def _condition(
    s: Status, job: StreamJob, now: datetime, kind: ConditionType, value: str, reason: str, message: str
) -> Condition:
    old = s.condition(kind)
    kept = old.last_transition_time if old is not None and old.status == value else None
    return Condition(
        type=kind,
        status=value,
        reason=reason,
        message=message,
        observed_generation=job.metadata.generation,
        last_transition_time=kept or timestamp(now),
    )


# --- Events ------------------------------------------------------------------------------------------------------


def events(old: Status, new: Status) -> list[Event]:
    """What happened between two statuses, for `kubectl describe`."""
    found = []
    ready = new.condition(ConditionType.READY)
    if new.last_error is not None and new.last_error != old.last_error:
        error = new.last_error
        found.append(Event(True, error.reason, sentence(Problem(error.reason, error.message, error.remedy))))
    if new.checkpoint is not None and new.checkpoint != old.checkpoint:
        text = f"Checkpoint {new.checkpoint.latest} of epoch {new.checkpoint.epoch} is in the index"
        found.append(Event(False, "CheckpointCompleted", text))
    aborted = new.aborted_checkpoint
    if aborted is not None and aborted != old.aborted_checkpoint:
        text = f"Checkpoint {aborted.checkpoint} of epoch {aborted.epoch} was given up, the job goes on: {aborted.reason}"
        found.append(Event(True, "CheckpointAborted", text))
    if new.savepoint is not None and new.savepoint != old.savepoint:
        found.append(Event(False, "SavepointCompleted", new.savepoint.latest))
    asked, before = new.savepoint_request, old.savepoint_request
    if (
        asked is not None
        and asked.failure is not None
        and (before is None or before.failure != asked.failure)
    ):
        text = f"Savepoint {asked.request_id} was given up, the job goes on: {asked.failure}"
        found.append(Event(True, "SavepointGivenUp", text))
    if new.phase is not None and new.phase != old.phase:
        found.append(Event(new.phase in WARNINGS, new.phase.value, ready.message if ready else ""))
    e = new.escalation
    if e is not None and e != old.escalation:
        found.append(Event(True, "Escalated", ready.message if ready else ""))
    if new.upgrade is not None and _news(old.upgrade, new.upgrade):
        found.append(how_it_went(new.upgrade))
    stalled, was = new.condition(ConditionType.STALLED), old.condition(ConditionType.STALLED)
    if stalled is not None and stalled.status == "True" and new.phase is not Phase.FAILED:
        known = was is not None and (was.status, was.reason) == (stalled.status, stalled.reason)
        said = new.last_error is not None and new.last_error != old.last_error
        if not known and not said and stalled.reason not in (ROLLED_BACK, "Escalated"):
            found.append(Event(True, stalled.reason, stalled.message))
    return found


def _news(old: UpgradeStatus | None, new: UpgradeStatus) -> bool:
    return old is None or (old.step, old.target) != (new.step, new.target)


def how_it_went(u: UpgradeStatus) -> Event:
    """An upgrade in words."""
    match u.step:
        case UpgradeStep.PENDING:
            text = "The driver runs with an earlier specification until the next epoch, as spec.upgrade.mode says"
            return Event(True, "UpgradePending", text)
        case UpgradeStep.STOPPING:
            return Event(False, "Upgrading", "The driver with the earlier specification is to stop")
        case UpgradeStep.STARTING:
            taken = (
                f"savepoint {u.savepoint}" if u.savepoint else "the latest checkpoint, without a savepoint"
            )
            return Event(
                False, "Upgrading", f"Epoch {u.epoch} begins with the new specification, from {taken}"
            )
        case UpgradeStep.COMPLETED:
            return Event(False, "Upgraded", f"The new specification has come up in epoch {u.epoch}")
        case UpgradeStep.ROLLED_BACK:
            error = u.error
            why = sentence(Problem(error.reason, error.message, error.remedy)) if error else ""
            text = f"The new specification did not come up ({error.reason if error else 'unknown'}): {why} {ROLLED_BACK_REMEDY}"
            return Event(True, ROLLED_BACK, text)


def event_object(job: StreamJob, event: Event, now: datetime) -> dict[str, object]:
    """The Event as Kubernetes takes it."""
    meta = job.metadata
    stamp = now.astimezone(timezone.utc)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{meta.name}.", "namespace": meta.namespace},
        "involvedObject": {
            "apiVersion": "streamjob.dev/v1alpha1",
            "kind": "StreamJob",
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
        },
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": event.message[:1000],
        "source": {"component": "streamjob"},
        "firstTimestamp": timestamp(stamp),
        "lastTimestamp": timestamp(stamp),
        "count": 1,
    }


def seconds_until(text: str, now: datetime) -> float:
    """From `now` to a timestamp, never negative."""
    return max((moment(text) - now) / timedelta(seconds=1), 0.0)
