"""Everything that is known of a job's life, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from ...printing.times import moment
from ..checkpoints import Index
from ..events import Event
from ..job import Job
from ..pods import Pod
from .entry import FAILED, GOING, NEUTRAL, PHASES, TOLD_ELSEWHERE, TimelineEntry
from .epochs import EPOCH, epochs
from .requests import ends, savepoints
from .upgrades import upgrades


def timeline(
    job: Job, index: Index, events: Sequence[Event], pods: Sequence[Pod], at: datetime
) -> tuple[TimelineEntry, ...]:
    """What is known of the job's life, in order."""
    ours = [e for e in events if e.kind != "Pod"]
    entries = [
        *epochs(job, index, ours, pods),
        *ends(job, index, ours),
        *savepoints(job, index, ours),
        *upgrades(job, ours),
        *_failures(job, ours),
        *_suspension(job),
        *_escalation(job),
    ]
    first = datetime.min.replace(tzinfo=at.tzinfo)
    begins = {e.epoch: e.begin for e in entries if e.kind == "epoch" and e.begin is not None}

    def place(entry: TimelineEntry) -> tuple[datetime, bool, datetime]:
        begin = entry.begin or entry.end or first
        if entry.begin is None and entry.epoch in begins:
            # The index has whole seconds, so a short epoch may seem to end before it began.
            begin = max(begin, begins[entry.epoch])
        return begin, entry.kind != "epoch", entry.end or at

    return tuple(sorted(entries, key=place))


def _failures(job: Job, events: Sequence[Event]) -> Iterator[TimelineEntry]:
    """Warnings that are no phases; each reason once at its time."""
    told, harmless = set(), {w.reason for w in job.warnings}
    for event in events:
        if event.warning and event.reason not in PHASES | TOLD_ELSEWHERE:
            told.add(event.reason)
            end = event.time if event.count > 1 else None
            times = f" ({event.count} times)" if event.count > 1 else ""
            said = EPOCH.search(event.message)
            warns = event.reason in harmless
            yield TimelineEntry(
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
        yield TimelineEntry(
            "failure", error.reason, error.time, None, FAILED, " ".join(error.message.split())
        )


def _suspension(job: Job) -> Iterator[TimelineEntry]:
    found = job.conditions.get("Suspended")
    if found is not None and found.true:
        yield TimelineEntry("suspension", "suspended", found.since, None, GOING, found.message)


def _escalation(job: Job) -> Iterator[TimelineEntry]:
    found = job.part("escalation")
    if found:
        detail = f"waited for {found.get('waitedFor')}"
        title = f"became a {str(found.get('mode')).lower()}"
        yield TimelineEntry(
            "escalation", title, moment(found.get("since")), None, FAILED, detail, found.get("epoch")
        )
