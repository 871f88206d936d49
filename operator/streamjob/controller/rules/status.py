"""Pure functions from observations to the fields and conditions of the status, which people read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TypeVar

from ...api import (
    AbortedCheckpointStatus,
    CheckpointStatus,
    Condition,
    ConditionType,
    DriverInfo,
    ErrorStatus,
    ExitStatus,
    Phase,
    PodPhase,
    SavepointStatus,
    StandbyStatus,
    State,
    Status,
    StreamJob,
    TerminationInfo,
    UpgradeStep,
    WarningStatus,
)
from ...protocol.formats.index import Index
from ...protocol.formats.records import CheckpointRecord
from ...protocol.messages.commands import SAVEPOINT_ID
from ...protocol.messages.driver_status import (
    IDLE,
    SETTING_PINNED,
    DriverPhase,
    DriverStatus,
    Problem,
)
from ...protocol.restore.recovery import left_behind
from ...protocol.times import moment, timestamp
from ..objects import names
from ..reports.log_redaction import without_secrets
from ..reports.messages import how_it_went, sentence
from ..reports.stages import stages
from .conditions import IN_PROGRESS, REACHED, condition, suspended
from .observed import BEFORE_GATE, Observed, Pod

S = TypeVar("S")

TERMINATED, FAILED = DriverPhase.TERMINATED.value, DriverPhase.FAILED.value
REASON = 500  # characters kept of an exit's reason
NOT_MADE = PodPhase.NOT_MADE.value
NOT_OF_PHASE = (ConditionType.DEGRADED, ConditionType.UI_AVAILABLE)
UPGRADED = {  # status of the condition Upgraded
    UpgradeStep.PENDING: "False",
    UpgradeStep.PREPARING: "Unknown",
    UpgradeStep.STOPPING: "Unknown",
    UpgradeStep.STARTING: "Unknown",
    UpgradeStep.COMPLETED: "True",
    UpgradeStep.ROLLED_BACK: "False",
}


# --- from observations --------------------------------------------------------------------------------------


def seen(observed: Observed) -> Status:
    """The old status, updated with all that follows from observation alone. Nothing in it goes back (V7)."""
    old, pod, report = observed.job.status, observed.pod, observed.report
    latest = observed.latest
    savepoint = observed.index.latest_savepoint if observed.index else None
    started = [p.epoch for p in observed.pods if p.started] + ([latest.epoch] if latest else [])
    if pod is None and old.driver is not None and old.driver.uid is None and old.driver.phase != NOT_MADE:
        started.append(old.epoch)  # it may have been created, run and disappeared unobserved
    return old.model_copy(
        update={
            "epoch": observed.epoch,
            "started_epoch": max([old.started_epoch, *started]),
            "driver": _driver(pod, old.driver) if pod else old.driver,
            "standby": _standby(observed),
            "handed_over": _leaving(observed, old.handed_over),
            "last_exit": _last_exit(observed, old.last_exit),
            "executors": observed.executors,
            "selector": names.all_executors(observed.job.metadata.uid),
            "stages": stages(report, old.stages) or old.stages,
            "checkpoint": _newer(old.checkpoint, _checkpoint(latest) if latest else None, lambda c: c.latest),
            "aborted_checkpoint": _aborted(report) or old.aborted_checkpoint,
            "savepoint": _newer(
                old.savepoint, _savepoint(savepoint) if savepoint else None, lambda s: s.checkpoint
            ),
            "termination": _termination(old.termination, report, observed.index),
            "warnings": _warnings(observed, old.warnings),
        }
    )


def _newer(old: S | None, new: S | None, number: Callable[[S], int]) -> S | None:
    """The newer of both: the index may have been read before another controller wrote, the status after."""
    return old if new is None or (old is not None and number(old) > number(new)) else new


def final(record: CheckpointRecord | None) -> bool:
    """Whether the checkpoint ended an epoch, as opposed to one taken while the epoch continued."""
    return record is not None and record.scenario is not None


def own_end(record: CheckpointRecord) -> bool:
    """Whether the job ended without a request: its sources ran out, or the script stopped its queries. The
    checkpoint may carry the request of a live savepoint that the end has overtaken; such a request asks for
    no end.
    """
    asked = record.request_id is not None and not record.request_id.startswith(SAVEPOINT_ID)
    return final(record) and not asked


def end_failed(latest: CheckpointRecord, s: Status) -> bool:
    """Whether the job ended without a request and its driver exited with a failure. A requested end counts
    regardless.
    """
    end = s.last_exit
    if end is None or end.epoch != latest.epoch or not own_end(latest):
        return False
    return end.phase == FAILED or (end.phase == TERMINATED and end.code != 0)


def ended_with_nothing_left(latest: CheckpointRecord, s: Status) -> bool:
    """Whether the job was over before the last driver started, or nothing was left to start, and its script
    then ended successfully. That driver had nothing to checkpoint.
    """
    end = s.last_exit
    if end is None or end.epoch < s.started_epoch or end.phase != TERMINATED or end.code != 0:
        return False
    nothing_left = bool(latest.stages) and not left_behind(latest.stages, exact=True)  # the driver has looked
    return over(latest) or (nothing_left and end.epoch > latest.epoch)


def nothing_has_run(latest: CheckpointRecord | None, s: Status, started_epoch: int) -> bool:
    """Whether the directories are as the newest checkpoint has left them: it ended the job, and no driver has
    started a query since. Without a checkpoint: whether none ever has.

    :param started_epoch: the newest epoch whose driver may have done anything.
    """
    if latest is not None and not final(latest):
        return False
    if started_epoch <= (latest.epoch if latest is not None else 0):
        return True
    end, number = s.last_exit, latest.checkpoint if latest is not None else 0
    return end is not None and end.epoch >= started_epoch and end.unchanged_since == number


def left_before_its_first_query(s: Status) -> bool:
    """Whether the last driver was asked to end, and did so before its script had started a query. What the
    script made of that does not matter.
    """
    return s.last_exit is not None and s.last_exit.phase in [phase.value for phase in BEFORE_GATE]


def over(record: CheckpointRecord | None) -> bool:
    """Whether nothing is left to resume, once no driver runs. A record cut to fit a final report has no
    stages: see its scenario.
    """
    if record is None or record.scenario is None:
        return record is not None and record.drained
    return record.scenario.is_drain


def _driver(pod: Pod, old: DriverInfo | None) -> DriverInfo | None:
    if old is None and pod.deleting and (not pod.started or (pod.exit is not None and pod.exit.unseen)):
        return None  # deleted before it started
    started = timestamp(pod.started_at) if pod.started_at else None
    if started is None and old is not None and old.uid == pod.uid:
        started = old.started_at
    return DriverInfo(pod=pod.name, uid=pod.uid, phase=pod.phase, started_at=started)


def _standby(observed: Observed) -> StandbyStatus | None:
    """The newest prepared driver: the one that the status has named, or another one that is there."""
    old = observed.job.status.standby
    if observed.newest_only:
        return old
    named = old if old is not None and old.epoch > observed.epoch else None
    pod = next((p for p in reversed(observed.standbys) if not p.deleting), None)
    if pod is None or (named is not None and named.epoch > pod.epoch):
        return named and named.model_copy(update={"prepared": False})
    named = named if named and named.epoch == pod.epoch else StandbyStatus(pod=pod.name, epoch=pod.epoch)
    return named.model_copy(update={"phase": pod.phase, "prepared": observed.at_gate == pod.epoch})


def _leaving(observed: Observed, old: DriverInfo | None) -> DriverInfo | None:
    """The driver that has handed over, until its pod is gone and the current one runs."""
    if old is None or observed.newest_only:
        return old
    pod = next((p for p in observed.pods if p.uid == old.uid), None)
    if pod is None:
        return old if observed.job.status.phase is Phase.STARTING else None
    return old.model_copy(update={"phase": pod.phase})


def _last_exit(observed: Observed, old: ExitStatus | None) -> ExitStatus | None:
    """The latest exit, with the pod's name while the pod is there: the pod of a failed driver may stay."""
    last = (_exit(observed.pod) if observed.pod else None) or old
    if last is None or observed.newest_only:
        return last
    there = (p.name for p in observed.pods if p.epoch == last.epoch and not p.deleting)
    return last.model_copy(update={"pod": next(there, None)})


def _exit(pod: Pod) -> ExitStatus | None:
    end = pod.exit
    if end is None or end.unseen:
        return None
    return ExitStatus(
        epoch=pod.epoch,
        code=end.script_code,
        phase=end.report.phase.value if end.report else None,
        reason=without_secrets(end.report.exit_reason if end.report else end.reason)[:REASON],
        unchanged_since=end.report.unchanged_since if end.report else None,
        time=timestamp(end.at) if end.at else None,
    )


def unseen_exit(s: Status, problem: Problem, now: datetime) -> Status:
    """The status with the exit of a driver whose end nobody has seen, if it has no exit of this epoch yet."""
    if s.last_exit is not None and s.last_exit.epoch == s.epoch:
        return s
    reason = without_secrets(problem.message)[:REASON]
    return s.model_copy(update={"last_exit": ExitStatus(epoch=s.epoch, reason=reason, time=timestamp(now))})


def _checkpoint(record: CheckpointRecord) -> CheckpointStatus:
    return CheckpointStatus(latest=record.checkpoint, epoch=record.epoch, completed_at=record.completed_at)


def _aborted(report: DriverStatus | None) -> AbortedCheckpointStatus | None:
    if report is None or report.aborted is None:
        return None
    reported = report.aborted
    return AbortedCheckpointStatus(
        checkpoint=reported.checkpoint, epoch=report.epoch, reason=reported.reason, time=reported.time
    )


def _warnings(observed: Observed, old: tuple[WarningStatus, ...]) -> tuple[WarningStatus, ...]:
    """Those of the last driver. What it could not do is no news once it has ended."""
    report = observed.report
    if report is not None:
        old = tuple(
            WarningStatus(reason=w.reason, message=without_secrets(sentence(w)[:1000]))
            for w in report.warnings
        )
    return old if observed.lives else tuple(w for w in old if w.reason not in IDLE)


def _savepoint(record: CheckpointRecord) -> SavepointStatus:
    return SavepointStatus(
        latest=record.savepoint or "",
        checkpoint=record.checkpoint,
        completed_at=record.completed_at,
        drained=record.after_end or (record.scenario is not None and record.scenario.is_drain),
    )


def _termination(
    old: TerminationInfo | None, report: DriverStatus | None, index: Index | None
) -> TerminationInfo | None:
    """The recorded termination with the driver's progress report, until its checkpoint is in the index."""
    if old is None:
        return None
    reported = report.termination if report else None
    if reported is not None and reported.request_id == old.request_id:
        old = old.model_copy(
            update={
                "step": reported.step.value,
                "progress": reported.progress or None,
                "flushed_rows": _or(reported.flushed_rows, old.flushed_rows),
                "state_rows_left": _or(reported.state_rows_left, old.state_rows_left),
            }
        )
    record = next((c for c in index.checkpoints if c.request_id == old.request_id), None) if index else None
    if record is not None:
        old = old.model_copy(update={"final_checkpoint": record.checkpoint, "progress": None})
    return old


def _or(new: int | None, old: int | None) -> int | None:
    return old if new is None else new


def degraded(s: Status, observed: Observed, now: datetime) -> Status:
    """The status, with the condition Degraded while the live driver reports one of its queries as dead."""
    if observed.lives and observed.driver is None:
        return s  # the driver is about to answer
    problem = observed.driver.degraded if observed.lives and observed.driver is not None else None
    others = tuple(c for c in s.conditions if c.type is not ConditionType.DEGRADED)
    if problem is not None:
        reason, message = problem.reason, sentence(problem)
        others += (condition(s, observed.job, now, ConditionType.DEGRADED, "True", reason, message),)
    return s.model_copy(update={"conditions": others})


# --- phase, conditions, last error --------------------------------------------------------------------------


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
    """The status in `phase`, with the conditions that follow from it: Ready, Reconciling, Stalled, and
    Upgraded if there is an upgrade.

    A job that runs with a dead query, without any executor, or with a JVM that does not answer, is not Ready,
    and Ready says why. Neither is one that still runs and is asked to end: something else may have to be done
    first, such as a commit to the index. One whose next driver is prepared is Ready and Reconciling: who
    delivers a specification has to wait.

    :param stalled: nothing moves until a person acts; implied by the phase Failed.
    """
    stalled = stalled or phase is Phase.FAILED
    idle = _cannot_work(s) if phase is Phase.RUNNING and not stalled else None
    to_end = phase is Phase.RUNNING and (job.spec.state is not State.RUNNING or job.spec.suspended)
    prepares = phase is Phase.RUNNING and s.upgrade is not None and s.upgrade.step is UpgradeStep.PREPARING
    flags = {
        ConditionType.READY: phase in REACHED and not (stalled or to_end) and idle is None,
        ConditionType.RECONCILING: (phase in IN_PROGRESS or to_end or prepares) and not stalled,
        ConditionType.STALLED: stalled,
    }
    why = {ConditionType.READY: (idle.reason, idle.message)} if idle is not None else {}
    upgraded: tuple[Condition, ...] = ()
    if s.upgrade is not None:
        told, value = how_it_went(s.upgrade), UPGRADED[s.upgrade.step]
        in_vain = [w.message for w in s.warnings if w.reason == SETTING_PINNED]
        text = (
            ". But ".join([told.message, *in_vain])
            if s.upgrade.step is UpgradeStep.COMPLETED
            else told.message
        )
        upgraded = (condition(s, job, now, ConditionType.UPGRADED, value, told.reason, text),)
        why |= {ConditionType.RECONCILING: (told.reason, told.message)} if prepares else {}
    conditions = tuple(
        condition(s, job, now, kind, "True" if flag else "False", *why.get(kind, (reason, message)))
        for kind, flag in flags.items()
    )
    conditions += upgraded
    conditions += suspended(s, job, now, phase, message)
    conditions += tuple(c for c in s.conditions if c.type in NOT_OF_PHASE)
    # Whoever reads the conditions takes them for those of this generation, so they are written together.
    generation = job.metadata.generation
    return s.model_copy(update={"observed_generation": generation, "phase": phase, "conditions": conditions})


def _cannot_work(s: Status) -> Condition | WarningStatus | None:
    """Why a job that runs does not do its work: a query is dead, or no batch can run."""
    dead = s.condition(ConditionType.DEGRADED)
    return dead or next((w for reason in IDLE for w in s.warnings if w.reason == reason), None)


def fail(s: Status, problem: Problem, now: datetime) -> Status:
    """The status with `problem` as its last error. The time stays while the problem is the same."""
    return s.model_copy(update={"last_error": error_status(s.last_error, problem, now)})


def error_status(old: ErrorStatus | None, problem: Problem, now: datetime) -> ErrorStatus:
    """`problem` for the status; `old` if it says the same."""
    message = without_secrets(problem.message)
    if old is not None and (old.reason, old.message, old.remedy) == (problem.reason, message, problem.remedy):
        return old
    return ErrorStatus(reason=problem.reason, message=message, remedy=problem.remedy, time=timestamp(now))


def standby_failed(s: StandbyStatus, job: StreamJob, problem: Problem, now: datetime) -> StandbyStatus:
    """The standby with its failure. The next one is made after the backoff of a restart."""
    failures = s.failures + 1 if s.generation == job.metadata.generation else 1
    update = {
        "failures": failures,
        "generation": job.metadata.generation,
        "next_at": timestamp(now + job.spec.restart.backoff.delay(failures)),
        "error": error_status(s.error, problem, now),
    }
    return s.model_copy(update=update)


def not_made(s: Status) -> Status:
    """The status with its driver marked as not created, unless a pod of it has been seen.

    Only for a driver that the API server refused: it has certainly not run.
    """
    if s.driver is None or s.driver.uid is not None:
        return s
    return s.model_copy(update={"driver": s.driver.model_copy(update={"phase": NOT_MADE})})


def seconds_until(text: str, now: datetime) -> float:
    """Seconds from `now` to a timestamp, never negative."""
    return max((moment(text) - now) / timedelta(seconds=1), 0.0)
