"""The life of a job: epochs, stops, drains, savepoints, upgrades and failures, with their durations.

It comes from what is there: the index (up to 200 checkpoints), the status (the newest of each kind), the pods
(the driver's, and those of failed drivers that were kept) and Events (an hour, unless the cluster keeps them
longer). A beginning or end that nobody knows any more is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ..printing.text import BAD, BUSY, DIM, GOOD, STRONG, WARN, Line, Span, Table, line
from .checkpoints import Checkpoint, Index
from .events import Event
from .job import ENDING, TERMINAL, Job, Obj, said_of
from .pods import Pod
from .times import moment, span

OK, FAILED, GOING, NEUTRAL = "ok", "failed", "going", ""
_PHASES = {"Pending", "Starting", "Running", "Stopping", "Draining", "Cancelling", "Restarting", *TERMINAL}
_TOLD_ELSEWHERE = {
    "CheckpointCompleted", "SavepointCompleted", "SavepointAborted", "Upgrading", "Upgraded", "ScriptEnded",
    "ExecutorsChanged", "Recovered", "UpgradePending",
}  # fmt: skip
_EPOCH = re.compile(r"\b[Ee]poch (\d+)")
_DOES = {
    "Starting": "starts", "Stopping": "is being stopped", "Draining": "is being drained",
    "Cancelling": "is being cancelled",
}  # fmt: skip
ENDED = {"Stop": "stopped", "Drain": "drained", "EndOfInput": "out of input"}


@dataclass(frozen=True)
class Entry:
    """Something that happened.

    :param kind: epoch, stop, drain, upgrade, savepoint, failure, warning, escalation, suspension.
    :param outcome: ok, failed, going, or empty where there is none.
    :param epoch: in which it happened.
    """

    kind: str
    title: str
    begin: datetime | None
    end: datetime | None
    outcome: str
    detail: str = ""
    epoch: int | None = None

    @property
    def seconds(self) -> float | None:
        if self.begin is None or self.end is None:
            return None
        return (self.end - self.begin).total_seconds()


def timeline(
    job: Job, index: Index, events: Sequence[Event], pods: Sequence[Pod], at: datetime
) -> tuple[Entry, ...]:
    """What is known of the job's life, in order."""
    ours = [e for e in events if e.kind != "Pod"]
    entries = [
        *_epochs(job, index, ours, pods),
        *_ends(job, index),
        *_savepoints(job, index),
        *_upgrades(job, ours),
        *_failures(job, ours),
        *_suspension(job),
        *_escalation(job),
    ]
    first = datetime.min.replace(tzinfo=at.tzinfo)
    return tuple(sorted(entries, key=lambda e: (e.begin or e.end or first, e.end or at)))


# --- epochs -------------------------------------------------------------------------------------------------


def _epochs(job: Job, index: Index, events: Sequence[Event], pods: Sequence[Pod]) -> Iterator[Entry]:
    last, drivers = job.part("lastExit"), {p.epoch: p for p in pods if p.role == "driver"}
    known = {c.epoch for c in index.checkpoints} | {e for e in drivers if e} | {job.epoch, last.get("epoch")}
    began = _first_mentions(events)
    for epoch in sorted(e for e in known if e):
        pod, of_it = drivers.get(epoch), index.of_epoch(epoch)
        begin = (pod.began or pod.created if pod else None) or began.get(epoch)
        if epoch == job.epoch:
            begin = begin or moment(job.part("driver").get("startedAt"))
        begin = begin or (of_it[0].completed if of_it else None)
        exit_of_it: Obj = last if last.get("epoch") == epoch else {}
        end = (pod.ended if pod else None) or moment(exit_of_it.get("time"))
        final = of_it[-1] if of_it and of_it[-1].scenario else None
        end = end or (final.completed if final else None)
        if end is None and epoch < job.epoch:
            end = (of_it[-1].completed if of_it else None) or began.get(epoch + 1)
        lives = epoch == job.epoch and job.phase not in (*TERMINAL, "Restarting", "Pending")
        outcome, detail = _end_of(final, exit_of_it, pod)
        if lives and final is None:
            outcome, detail = GOING, _now(job, pod)
        yield Entry("epoch", f"epoch {epoch}", begin, None if lives else end, outcome, detail, epoch)


def _now(job: Job, pod: Pod | None) -> str:
    """What the newest epoch does."""
    phase = pod.phase if pod is not None else job.part("driver").get("phase") or "Pending"
    if phase == "Pending" and job.phase != "Running":
        why = pod and (pod.unschedulable or (pod.waiting and ": ".join(filter(None, pod.waiting))))
        return f"its driver's pod is pending: {why}" if why else "its driver's pod is pending"
    return _DOES.get(job.phase, "runs")


def _end_of(final: Checkpoint | None, found: Obj, pod: Pod | None) -> tuple[str, str]:
    if final is not None:
        return OK, f"{ENDED.get(final.scenario or '', 'ended')} with checkpoint {final.number}"
    code = found.get("code", pod.code if pod else None)
    reason = str(found.get("reason") or (pod.killed if pod else "") or "")
    if code is None and not reason:
        return NEUTRAL, "ended"
    said = f"exit code {code}" if code is not None else "ended"
    return (OK if code == 0 else FAILED), f"{said}: {reason}" if reason else said


def _first_mentions(events: Iterable[Event]) -> dict[int, datetime]:
    found: dict[int, datetime] = {}
    for event in events:
        said = _EPOCH.search(event.message) if event.reason == "Starting" else None
        if said and event.first:
            found.setdefault(int(said[1]), event.first)
    return found


# --- requests -----------------------------------------------------------------------------------------------


def _ends(job: Job, index: Index) -> Iterator[Entry]:
    t = job.part("termination")
    for c in index.checkpoints:
        if (
            not c.scenario
            or not c.request
            or c.why not in ("Stop", "Drain", "Deletion", "Eviction", "Upgrade")
        ):
            continue
        begin = moment(t.get("requestedAt")) if t.get("requestId") == c.request else None
        kind = "drain" if c.scenario == "Drain" else "stop"
        why = "" if c.why.lower() == kind else f" ({c.why.lower()})"
        detail = f"checkpoint {c.number}" + (f", savepoint {c.name}" if c.name else "")
        yield Entry(kind, f"{kind}{why}", begin, c.completed, OK, detail, c.epoch)
    if t and t.get("finalCheckpoint") is None:
        kind = "drain" if t.get("mode") == "Drain" else "stop"
        going = job.phase in ENDING
        detail = ": ".join(part for part in (said_of(t.get("step")), t.get("progress")) if part)
        yield Entry(
            kind,
            f"{kind} ({t.get('requestId')})",
            moment(t.get("requestedAt")),
            None,
            GOING if going else FAILED,
            detail if going else "did not come to its end",
            job.epoch,
        )


def _savepoints(job: Job, index: Index) -> Iterator[Entry]:
    request = job.part("savepointRequest")
    for c in index.checkpoints:
        if c.savepoint and not c.scenario:
            ours = request.get("requestId") == c.request
            begin = moment(request.get("requestedAt")) if ours else None
            yield Entry("savepoint", f"savepoint {c.name}", begin, c.completed, OK, c.why.lower(), c.epoch)
    if request and request.get("checkpoint") is None:
        failure = request.get("failure")
        yield Entry(
            "savepoint",
            f"savepoint {request.get('requestId')}",
            moment(request.get("requestedAt")),
            None,
            FAILED if failure else GOING,
            failure or request.get("progress") or "",
            job.epoch,
        )


def _upgrades(job: Job, events: Sequence[Event]) -> Iterator[Entry]:
    """From Events, each from its beginning to its end; the last one also from the status."""
    begin: datetime | None = None
    told = False
    for event in events:
        if event.reason == "Upgrading" and begin is None:
            begin = event.first
        if event.reason in ("Upgraded", "RolledBack"):
            ok = event.reason == "Upgraded"
            yield Entry("upgrade", "upgrade", begin, event.time, OK if ok else FAILED, event.message)
            begin, told = None, True
    upgrade, condition = job.part("upgrade"), job.conditions.get("Upgraded")
    if not upgrade or (told and begin is None):
        return
    step = upgrade.get("step")
    over = step in ("Completed", "RolledBack")
    end = condition.since if over and condition is not None else None
    outcome = OK if step == "Completed" else FAILED if step == "RolledBack" else GOING
    detail = condition.message if condition is not None else ""
    yield Entry("upgrade", f"upgrade to generation {upgrade.get('generation')}", begin, end, outcome, detail)


def _failures(job: Job, events: Sequence[Event]) -> Iterator[Entry]:
    """Warnings that are no phases; each reason once at its time."""
    told, harmless = set(), {w.reason for w in job.warnings}
    for event in events:
        if event.warning and event.reason not in _PHASES | _TOLD_ELSEWHERE | {"RolledBack", "Escalated"}:
            told.add(event.reason)
            end = event.time if event.count > 1 else None
            times = f" ({event.count} times)" if event.count > 1 else ""
            said = _EPOCH.search(event.message)
            warns = event.reason in harmless
            yield Entry(
                "warning" if warns else "failure",
                f"{event.reason}{times}",
                event.first,
                end,
                NEUTRAL if warns else FAILED,
                " ".join(event.message.split()),
                int(said[1]) if said else None,
            )
    error = job.last_error
    if error is not None and error.reason not in told:
        yield Entry("failure", error.reason, error.time, None, FAILED, " ".join(error.message.split()))


def _suspension(job: Job) -> Iterator[Entry]:
    found = job.conditions.get("Suspended")
    if found is not None and found.true:
        yield Entry("suspension", "suspended", found.since, None, GOING, found.message)


def _escalation(job: Job) -> Iterator[Entry]:
    found = job.part("escalation")
    if found:
        detail = f"waited for {found.get('waitedFor')}"
        title = f"became a {str(found.get('mode')).lower()}"
        yield Entry("escalation", title, moment(found.get("since")), None, FAILED, detail, found.get("epoch"))


# --- as a table ---------------------------------------------------------------------------------------------

_OUTCOMES = {OK: GOOD, FAILED: BAD, GOING: BUSY}
_KINDS = {"epoch": STRONG, "failure": WARN, "escalation": WARN}


def table(entries: Iterable[Entry], at: datetime) -> Table:
    """One line for each, in order."""
    return Table(("BEGAN", "ENDED", "TOOK", "WHAT", "OUTCOME", "DETAIL"), [_row(e, at) for e in entries])


def _row(entry: Entry, at: datetime) -> list[Line]:
    took = span(entry.seconds)
    if not took and entry.outcome == GOING and entry.begin is not None:
        took = f"{span(at - entry.begin)} so far"
    indented = entry.title if entry.kind == "epoch" else f"  {entry.title}"
    return [
        line(_time(entry.begin)),
        line(_time(entry.end)),
        line(took),
        line(Span(indented, _KINDS.get(entry.kind, ""))),
        line(Span(entry.outcome, _OUTCOMES.get(entry.outcome, ""))),
        line(Span(entry.detail[:200], DIM)),
    ]


def _time(time: datetime | None) -> str:
    return f"{time:%m-%d %H:%M:%S}" if time else ""
