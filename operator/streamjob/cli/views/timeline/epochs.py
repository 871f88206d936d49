"""The epochs of a job: when each began and ended, and how."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from ...printing.times import moment
from ..checkpoints import Checkpoint, Index
from ..events import Event
from ..job import TERMINAL, Job, Obj
from ..pods import Pod
from .entry import FAILED, GOING, NEUTRAL, OK, PHASES, TOLD_ELSEWHERE, TimelineEntry

ENDED = {"Stop": "stopped", "Drain": "drained", "EndOfInput": "out of input"}
EPOCH = re.compile(r"\b[Ee]poch (\d+)")
_DOES = {
    "Starting": "starts", "Stopping": "is being stopped", "Draining": "is being drained",
    "Cancelling": "is being cancelled",
}  # fmt: skip
_NAMES_ITS_EPOCH = ("Starting", "Running", "CheckpointCompleted", "Upgraded")
_AFTER_A_FAILURE = ("Restarting", "Failed")
_SAYS_LITTLE = ("Error", "Completed")  # of a container, by its exit code
_COUNTS = re.compile(r"^(Restart \d+ (?:in \d+ s|at once)\. |After \d+ restarts in a row: )")


def epochs(job: Job, index: Index, events: Sequence[Event], pods: Sequence[Pod]) -> Iterator[TimelineEntry]:
    """The entries of all epochs of which anything is known, in order."""
    last, drivers = job.part("lastExit"), {p.epoch: p for p in pods if p.role == "driver"}
    told = _first_mentions(events)
    known = (
        {c.epoch for c in index.checkpoints} | drivers.keys() | told.keys() | {job.epoch, last.get("epoch")}
    )
    numbers = sorted(e for e in known if e)
    begins = {e: _begin(e, job, index, drivers.get(e), told.get(e)) for e in numbers}
    for epoch, following in zip(numbers, (*numbers[1:], None), strict=False):
        pod, of_it = drivers.get(epoch), index.of_epoch(epoch)
        begin, next_begin = begins[epoch], begins.get(following) if following else None
        exit_of_it: Obj = last if last.get("epoch") == epoch else {}
        final = of_it[-1] if of_it and of_it[-1].scenario else None
        failure = None if final else _failure(job, events, begin, next_begin)
        end = (pod.ended if pod else None) or moment(exit_of_it.get("time"))
        end = end or (final.completed if final else None)
        if end is None and epoch < job.epoch:
            end = (
                _within(failure, begin, next_begin) or (of_it[-1].completed if of_it else None) or next_begin
            )
        lives = epoch == job.epoch and job.phase not in (*TERMINAL, "Restarting", "Pending")
        outcome, detail = _end_of(final, exit_of_it, pod, failure)
        if lives and final is None:
            outcome, detail = GOING, _now(job, pod)
        yield TimelineEntry("epoch", f"epoch {epoch}", begin, None if lives else end, outcome, detail, epoch)


def _begin(epoch: int, job: Job, index: Index, pod: Pod | None, told: datetime | None) -> datetime | None:
    begin = (pod.began or pod.created if pod else None) or told
    if epoch == job.epoch:
        begin = begin or moment(job.part("driver").get("startedAt"))
    return begin or next((c.completed for c in index.of_epoch(epoch)), None)


def _now(job: Job, pod: Pod | None) -> str:
    """What the newest epoch does."""
    phase = pod.phase if pod is not None else job.part("driver").get("phase") or "Pending"
    if phase == "Pending" and job.phase != "Running":
        why = pod and (pod.unschedulable or (pod.waiting and ": ".join(filter(None, pod.waiting))))
        return f"its driver's pod is pending: {why}" if why else "its driver's pod is pending"
    return _DOES.get(job.phase, "runs")


def _end_of(final: Checkpoint | None, found: Obj, pod: Pod | None, failure: Event | None) -> tuple[str, str]:
    if final is not None:
        return OK, f"{ENDED.get(final.scenario or '', 'ended')} with checkpoint {final.number}"
    code = found.get("code", pod.code if pod else None)
    # The status knows the reason of the last exit only.
    told = " ".join(_COUNTS.sub("", failure.message).split()) if failure is not None and code != 0 else ""
    killed = (pod.killed if pod else "") or ""
    said_more = killed if killed not in _SAYS_LITTLE else ""
    reason = str(found.get("reason") or said_more or told or killed)
    if code is None and not reason:
        return NEUTRAL, "ended"
    said = f"exit code {code}" if code is not None else "ended"
    return (OK if code == 0 else FAILED), f"{said}: {reason}" if reason else said


def _failure(
    job: Job, events: Iterable[Event], begin: datetime | None, until: datetime | None
) -> Event | None:
    """The Event with which an epoch has failed: between its beginning and that of the next one.

    One that was repeated may stand for an epoch between its first and its last time.
    """
    harmless = PHASES | TOLD_ELSEWHERE | {w.reason for w in job.warnings}
    found = [
        e
        for e in events
        if e.warning and (e.reason in _AFTER_A_FAILURE or e.reason not in harmless)
        if begin is not None and e.first is not None and e.time is not None
        if e.time >= begin and (until is None or e.first <= until)
    ]
    # The phase after the failure has its cause even if the same error was there before.
    phases = [e for e in found if e.reason in _AFTER_A_FAILURE]
    return next(reversed(phases or found), None)


def _within(event: Event | None, begin: datetime | None, until: datetime | None) -> datetime | None:
    """The time of an Event, the one that lies between these."""
    times = (event.first, event.time) if event is not None else ()
    return next(
        (t for t in times if t and (begin is None or t >= begin) and (until is None or t <= until)), None
    )


def _first_mentions(events: Iterable[Event]) -> dict[int, datetime]:
    """By epoch: when an Event first told of its driver."""
    found: dict[int, datetime] = {}
    for event in events:
        said = EPOCH.search(event.message) if event.reason in _NAMES_ITS_EPOCH else None
        if said and event.first:
            epoch = int(said[1])
            found[epoch] = min(found.get(epoch, event.first), event.first)
    return found
