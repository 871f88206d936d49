"""Findings from what the operator says itself: conditions, the last error, warnings, requests, the index."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ..printing.times import ago, moment, span, until
from ..views.job import Condition, Job, said_of
from ..views.progress import Mover
from . import from_controllers, knowledge
from .facts import Evidence, Facts, Finding, Severity

UNSEEN = 60  # seconds within which the operator sees a change
ENDS = {"Drained", "Finished"}


def conditions(f: Facts) -> Iterator[Finding]:
    """Stalled and Degraded need somebody."""
    for kind in ("Stalled", "Degraded"):
        found = f.job.conditions.get(kind)
        if found is None or not found.true or _is_late(f, found):
            continue
        error = f.job.last_error
        same = error is not None and error.reason == found.reason
        evidence = [Evidence(f"condition {kind}", _since(f, found.since) + found.message)]
        if same and error is not None and error.message not in found.message:
            evidence.append(Evidence("status.lastError", error.message))
        mover = _mover(f, found) if kind == "Stalled" else knowledge.mover(found.reason)
        yield Finding(
            Severity.ERROR,
            found.reason,
            _stalled(f, found.reason, mover) if kind == "Stalled" else _degraded(found.reason),
            tuple(evidence),
            _remedy(f, found.reason, error.remedy if same and error else "")
            if kind == "Stalled"
            else "See the driver's log. The query runs again if the script starts it, or with the next "
            + ("start: Ctrl-C, and start it again." if f.local else _NEXT_EPOCH),
            mover,
        )


_NEXT_EPOCH = "epoch: end the script, or delete the driver's pod."


def _remedy(f: Facts, reason: str, given: str) -> str:
    """What the job itself says to do; else what the manual says, which speaks of a cluster."""
    if f.local and not given:
        return "See what the job has printed, and start it again."
    return knowledge.remedy(reason, given)


def _is_late(f: Facts, stalled: Condition) -> bool:
    """A stop or drain that takes too long goes on all the same: `ending` says so."""
    return stalled.reason == "TerminationTimedOut" and f.job.phase in ("Stopping", "Draining")


def _mover(f: Facts, stalled: Condition) -> Mover:
    """Whose move it is. A job that stands still does not wait for the operator, unless that takes it back."""
    found = knowledge.mover(stalled.reason, stalled.message)
    return Mover.YOU if found is Mover.OPERATOR and f.job.rolls_back_at is None else found


def _stalled(f: Facts, reason: str, mover: Mover) -> str:
    general = knowledge.what(reason)
    because = f"{reason} ({general})" if general and len(general) < 160 else reason
    back = f.job.rolls_back_at
    if back is not None:
        return (
            f"The upgrade's driver does not come up: {because}. In {until(back, f.at)} the job returns to "
            "the previous specification by itself."
        )
    if f.job.part("upgrade").get("step") == "RolledBack" and f.job.phase == "Running":
        return f"The job runs with its previous specification: the upgrade failed with {because}."
    if mover is Mover.KUBERNETES:
        return f"The job is {f.job.phase} and waits for Kubernetes: {because}."
    return f"Nothing moves until a person acts: the job is {f.job.phase} with the reason {because}."


def _degraded(reason: str) -> str:
    return f"A query of the running job is dead ({reason}); the others keep running."


def restarting(f: Facts) -> Iterator[Finding]:
    """The driver has failed, and another one follows. That one may wait for something else."""
    restarts, error, last = f.job.part("restarts"), f.job.failure, f.job.part("lastExit")
    stalled = f.job.is_true("Stalled")
    if not f.failing or (stalled and f.job.phase not in ("Pending", "Starting")):
        return
    reason = error.reason if error else "DriverFailed"
    due = moment(restarts.get("nextAt"))
    when = ""
    if stalled:
        when = f"; the next one does not start ({f.job.conditions['Stalled'].reason})"
    elif f.job.epoch > restarts["epoch"] or (due and due <= f.at):
        when = "; the next one starts now"
    elif due:
        when = f"; the next one starts in {until(due, f.at)}"
    evidence = [
        Evidence(
            "status.restarts",
            f"{restarts['count']} failures in a row, the last in epoch {restarts.get('epoch')}",
        )
    ]
    if error is not None:
        where = "status.restarts.error" if restarts.get("error") else "status.lastError"
        evidence.append(Evidence(where, f"{error.reason}: {error.message}"))
    if last:
        evidence.append(
            Evidence(
                "status.lastExit",
                f"epoch {last.get('epoch')}, code {last.get('code')}: {last.get('reason', '')}",
            )
        )
    yield Finding(
        Severity.ERROR if restarts["count"] > 1 or stalled else Severity.WARNING,
        reason,
        f"The driver has failed {_times(restarts['count'])}{when}.",
        tuple(evidence),
        f.with_command(
            _remedy(f, reason, error.remedy if error else ""),
            restarts["epoch"] if f.job.epoch > restarts["epoch"] else None,
        ),
        _mover(f, f.job.conditions["Stalled"]) if stalled else knowledge.mover(reason),
    )


def not_ready(f: Facts) -> Iterator[Finding]:
    """The job is on its way, and says since when."""
    ready = f.job.conditions.get("Ready")
    if f.job.is_true("Stalled") or f.job.is_true("Degraded") or f.job.phase in ("Restarting", "Running"):
        return
    if ready is None or ready.true or not f.job.seen or f.job.phase in ("Stopping", "Draining"):
        return
    made = f.job.part("driver").get("phase") in (None, "Pending") and f.job.part("driver").get("pod")
    waiting = made or f.job.waits_for_pod
    yield Finding(
        Severity.NOTE,
        ready.reason,
        f"The job is {f.job.phase}, on its way to {f.job.wanted}.",
        (Evidence("condition Ready", _since(f, ready.since) + ready.message),),
        "",
        Mover.KUBERNETES if waiting else Mover.OPERATOR,
    )


def unseen(f: Facts) -> Iterator[Finding]:
    """Nobody has looked at the newest spec."""
    if f.job.seen or from_controllers.is_nobody(f):
        return
    changed = _spec_changed(f.job)
    newest = changed or f.job.created
    if newest is not None and (f.at - newest).total_seconds() < UNSEEN:
        return
    numbers = f"generation {f.job.generation}, observedGeneration {f.job.observed_generation}"
    yield Finding(
        Severity.ERROR,
        "NotObserved",
        "The operator has not looked at the newest spec"
        + (f", which is {span(f.at - changed)} old." if changed is not None else "."),
        (Evidence("metadata and status", numbers),),
        "See whether a controller runs and leads (`kubectl get lease streamjob`, in the namespace of its "
        "release), "
        "whether it watches this namespace (`watch.namespaces` of the chart), and its log.",
        Mover.OPERATOR,
    )


def _spec_changed(job: Job) -> datetime | None:
    """When somebody changed the spec, or deleted the job; None: it was read without its managed fields."""
    fields = (job.obj.get("metadata") or {}).get("managedFields") or ()
    times = [moment(m.get("time")) for m in fields if "f:spec" in (m.get("fieldsV1") or {})]
    return max((t for t in (*times, job.deleting) if t is not None), default=None)


def ending(f: Facts) -> Iterator[Finding]:
    """A stop or drain: how far it is, and whether it is late."""
    if f.job.phase not in ("Stopping", "Draining"):
        return
    t = f.job.part("termination")
    step, deadline = t.get("step") or "not sent to the driver yet", moment(t.get("deadline"))
    late = deadline is not None and f.at > deadline
    evidence = [Evidence("status.termination", ": ".join(p for p in (step, t.get("progress")) if p))]
    evidence += [
        Evidence(f"stage {s.uid}", f"batch {s.batch} is committed, the last took {span(s.batch_seconds)}")
        for s in f.job.stages
        if step == "WaitingForBoundary" and s.batch_seconds is not None
    ]
    what = "drain" if f.job.phase == "Draining" else "stop"
    if late and deadline is not None:
        yield Finding(
            Severity.ERROR,
            "TerminationTimedOut",
            f"The {what} takes {span(f.at - deadline)} longer than its timeout; it continues.",
            tuple(evidence),
            _remedy(f, "TerminationTimedOut", ""),
            Mover.YOU,
        )
    else:
        left = f"; {span(deadline - f.at)} are left" if deadline else ""
        yield Finding(
            Severity.NOTE,
            f.job.phase,
            f"The {what} goes on, {said_of(t.get('step'))}{left}.",
            tuple(evidence),
            "",
            Mover.JOB,
        )


def requests(f: Facts) -> Iterator[Finding]:
    """Requests that have failed while the job went on."""
    request, aborted = f.job.part("savepointRequest"), f.job.part("abortedCheckpoint")
    if request.get("failure"):
        yield Finding(
            Severity.WARNING,
            "SavepointAborted",
            f"The savepoint {request.get('requestId')} was aborted; the job continues.",
            (Evidence("status.savepointRequest.failure", request["failure"]),),
            "Request another one when the cause is gone: `kubectl streamjob savepoint take`.",
            Mover.YOU,
        )
    if aborted and aborted.get("checkpoint", 0) > f.job.part("checkpoint").get("latest", 0):
        yield Finding(
            Severity.WARNING,
            "CheckpointAborted",
            f"Checkpoint {aborted['checkpoint']} was aborted, and none has completed since.",
            (Evidence("status.abortedCheckpoint", f"{aborted.get('reason')}"),),
            "A failure now would go back to the checkpoint before: see the storage, or raise "
            "checkpoint.timeout.",
            Mover.YOU,
        )


def upgrades(f: Facts) -> Iterator[Finding]:
    found = f.job.conditions.get("Upgraded")
    if found is None or found.true or f.job.is_true("Stalled"):
        return
    if found.reason == "UpgradePending":
        yield Finding(
            Severity.NOTE,
            found.reason,
            "The driver runs an earlier specification than the spec has.",
            (Evidence("condition Upgraded", found.message),),
            knowledge.remedy(found.reason),
            Mover.YOU,
        )
    elif found.reason == "Upgrading":
        yield Finding(
            Severity.NOTE,
            found.reason,
            f"An upgrade is at the step {f.job.part('upgrade').get('step')}.",
            (Evidence("condition Upgraded", _since(f, found.since) + found.message),),
            "",
            Mover.OPERATOR,
        )


def warnings(f: Facts) -> Iterator[Finding]:
    """What the driver reports although the job keeps running, and the UI."""
    for warning in f.job.warnings:
        yield Finding(
            Severity.WARNING,
            warning.reason,
            _first_sentence(warning.message),
            (Evidence("status.warnings", warning.message),),
            knowledge.of_warning(warning.reason),
            Mover.YOU,
        )
    ui = f.job.conditions.get("UIAvailable")
    if ui is not None and ui.status == "False":
        yield Finding(
            Severity.WARNING,
            ui.reason,
            "Something that spec.ui asks for is not there; the job runs.",
            (Evidence("condition UIAvailable", ui.message),),
            knowledge.remedy(ui.reason),
            Mover.YOU,
        )


def index(f: Facts) -> Iterator[Finding]:
    """The index is missing or cannot be read."""
    problem = f.index.problem
    missing = problem is not None and "there is none" in problem
    if (
        problem is None
        or (missing and not f.job.part("checkpoint"))  # the first checkpoint makes it
        or f.job.is_true("Stalled")
        or any("configmap" in u for u in f.unread)
    ):
        return
    remedy, mover = _how_to_have_it_again(f)
    yield Finding(
        Severity.ERROR,
        "IndexMissing" if missing else "MalformedDocument",
        f"The index of the job cannot be used: {problem}.",
        (Evidence("index.json" if f.local else f"ConfigMap {f.job.index}", problem),),
        remedy,
        mover,
    )


def _how_to_have_it_again(f: Facts) -> tuple[str, Mover]:
    """What brings the index back, and whose move that is. As `rebuild` of the controller has it."""
    if f.local:
        return "Start another job from one of its savepoints: --state and --restore.", Mover.YOU
    if f.runs:
        return "Nothing has to be done: the operator rebuilds it from what the driver knows.", Mover.OPERATOR
    savepoint, latest = f.job.part("savepoint"), f.job.part("checkpoint").get("latest")
    if savepoint and savepoint.get("checkpoint") == latest and not savepoint.get("drained"):
        where = savepoint.get("latest")
        if f.job.wanted == "Running":
            return f"Nothing has to be done: the next driver rebuilds it from {where}.", Mover.OPERATOR
        return (
            f"Resume the job: it continues from {where}, and its driver rebuilds the index.",
            Mover.YOU,
        )
    if savepoint:
        where = savepoint.get("latest")
        return (
            "Restore the ConfigMap from a backup, or make a new StreamJob with restoreFrom.savepoint: "
            f"{where}, which is older than the last checkpoint.",
            Mover.YOU,
        )
    return "Restore the ConfigMap from a backup. There is no savepoint to begin another job from.", Mover.YOU


def deletion(f: Facts) -> Iterator[Finding]:
    if f.job.deleting is None:
        return
    finalizers = ", ".join((f.job.obj.get("metadata") or {}).get("finalizers") or ()) or "none"
    yield Finding(
        Severity.NOTE,
        "Deleting",
        f"The job is being deleted since {span(f.at - f.job.deleting)}; first it ends as "
        "spec.termination.onDelete says.",
        (Evidence("metadata.finalizers", finalizers),),
        "If the operator is gone for good, remove the finalizer: "
        f'kubectl patch streamjob {f.job.name} --type merge -p \'{{"metadata":{{"finalizers":null}}}}\'',
        Mover.OPERATOR,
    )


def end(f: Facts) -> Iterator[Finding]:
    """A job at its end does not run again."""
    if f.job.phase in ENDS and f.job.ready:
        why = f.job.conditions["Ready"].message
        yield Finding(
            Severity.NOTE,
            f.job.phase,
            f"The job is {f.job.phase}, which is an end: it does not run again.",
            (Evidence("condition Ready", why),),
        )


def _since(f: Facts, since: datetime | None) -> str:
    return f"{ago(since, f.at)}: " if since is not None else ""


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times in a row"


def _first_sentence(text: str) -> str:
    first = text.partition(". ")[0]
    return f"{first.rstrip('.')}."
