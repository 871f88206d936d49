"""Upgrades, each from its beginning to its own end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from ...printing.times import moment
from ..events import Event, occurrences
from ..job import Job
from .entry import FAILED, GOING, NEUTRAL, OK, TimelineEntry

_GENERATION = re.compile(r"\bgeneration (\d+)")
_ENDS = {"Upgraded": OK, "RolledBack": FAILED}


@dataclass
class _Begun:
    """An upgrade that has begun.

    :param rank: how far it is known to have come; see `_rank`.
    """

    begin: datetime
    rank: int
    generation: int | None


def upgrades(job: Job, events: Sequence[Event]) -> Iterator[TimelineEntry]:
    """From the Events, in order; the last one also from the status.

    An upgrade that has begun ends with the next outcome, unless another one begins before.
    """
    begun: _Begun | None = None
    told: list[TimelineEntry] = []
    for time, event in occurrences(events):
        generation = _generation(event.message)
        if event.reason == "Upgrading":
            rank = _rank(event.message)
            if begun is not None and rank <= begun.rank:
                text = "the spec was changed again before it was done"
                told.append(
                    TimelineEntry("upgrade", _title(begun.generation), begun.begin, time, NEUTRAL, text)
                )
                begun = None
            begun = begun or _Begun(time, rank, generation)
            begun.rank, begun.generation = rank, begun.generation or generation
        elif event.reason in _ENDS:
            title = _title(generation or (begun.generation if begun else None))
            began = begun.begin if begun else None
            told.append(TimelineEntry("upgrade", title, began, time, _ENDS[event.reason], event.message))
            begun = None
    yield from told
    yield from _of_status(job, begun, told)


def _of_status(job: Job, begun: _Begun | None, told: list[TimelineEntry]) -> Iterator[TimelineEntry]:
    """The latest upgrade, unless the Events have told of its end."""
    upgrade, condition = job.part("upgrade"), job.conditions.get("Upgraded")
    if not upgrade:
        if begun is not None:
            text = "the spec was set back before it was done"
            yield TimelineEntry("upgrade", _title(begun.generation), begun.begin, None, NEUTRAL, text)
        return
    step, generation = upgrade.get("step"), upgrade.get("generation")
    over = step in ("Completed", "RolledBack")
    if told and begun is None and (over or step == "Pending"):
        return
    begin = begun.begin if begun else _requested(job, generation)
    end = condition.since if over and condition is not None else None
    outcome = OK if step == "Completed" else FAILED if step == "RolledBack" else GOING
    detail = condition.message if condition is not None else ""
    yield TimelineEntry("upgrade", _title(generation), begin, end, outcome, detail)


def _requested(job: Job, generation: int | None) -> datetime | None:
    """When the driver was asked to stop for the upgrade to this generation, as the status has it."""
    t = job.part("termination")
    ours = re.fullmatch(rf"upgrade-\d+-{generation}", t.get("requestId") or "")
    return moment(t.get("requestedAt")) if ours else None


def _rank(message: str) -> int:
    """Its step: the next driver is prepared beside the running one, that one stops, the next one starts."""
    if "beside the running one" in message:
        return 0
    return 1 if "is stopping" in message else 2


def _generation(message: str) -> int | None:
    found = _GENERATION.search(message)
    return int(found[1]) if found else None


def _title(generation: int | None) -> str:
    return f"upgrade to generation {generation}" if generation else "upgrade"
