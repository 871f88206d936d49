"""Schedules: the five fields of cron (minute, hour, day of month, month, day of week), in UTC.

A field is a list of `*`, numbers and ranges, each with an optional step: `0`, `*/15`, `8-18/2`, `22-2` (over
midnight). Sunday is 0 and 7. As in every cron, a day must match both of its fields if one of them begins with
`*`, and only one of the two otherwise.

Every text that matches PATTERN is a valid schedule. The API server refuses any other text, so no stored
schedule is unreadable.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cache

STEP = "(/[1-9][0-9]?)?"


def _list_of(number: str) -> str:
    one = f"([*]|{number}(-{number})?){STEP}"
    return f"{one}(,{one})*"


MINUTE, HOUR, DAY = "[1-5]?[0-9]", "(1?[0-9]|2[0-3])", "([1-9]|[12][0-9]|3[01])"
MONTH, WEEKDAY = "([1-9]|1[0-2])", "[0-7]"
PATTERN = " ".join(map(_list_of, (MINUTE, HOUR, DAY, MONTH, WEEKDAY)))
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
YEARS = 41  # within this many years every date, 29 February included, falls on every weekday


@dataclass(frozen=True)
class Schedule:
    """The values that each field admits.

    :param either: a day must match only one of its two fields.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool

    def has(self, moment: datetime) -> bool:
        """Whether the schedule includes this moment, to the minute."""
        moment = moment.astimezone(timezone.utc)
        return self._has_day(moment) and moment.hour in self.hours and moment.minute in self.minutes

    def after(self, moment: datetime) -> datetime | None:
        """The first scheduled moment after this one; None if there is none (30 February)."""
        start = moment.astimezone(timezone.utc).replace(second=0, microsecond=0) + timedelta(minutes=1)
        day = start.replace(hour=0, minute=0)
        for n in range(366 * YEARS):
            date = day + timedelta(days=n)
            if not self._has_day(date):
                continue
            for hour in self.hours:
                for minute in self.minutes:
                    found = date.replace(hour=hour, minute=minute)
                    if found >= start:
                        return found
        return None

    def _has_day(self, date: datetime) -> bool:
        if date.month not in self.months:
            return False
        in_month, in_week = date.day in self.days, date.isoweekday() % 7 in self.weekdays
        return (in_month or in_week) if self.either else (in_month and in_week)


@cache
def schedule(text: str) -> Schedule:
    """Parse a schedule.

    :param text: must match PATTERN.
    """
    fields = text.split(" ")
    minutes, hours, days, months, weekdays = (
        frozenset(n for part in field.split(",") for n in _numbers(part, *bounds))
        for field, bounds in zip(fields, BOUNDS, strict=True)
    )
    either = not fields[2].startswith("*") and not fields[4].startswith("*")
    return Schedule(tuple(sorted(minutes)), tuple(sorted(hours)), days, months, weekdays, either)


def _numbers(part: str, low: int, high: int) -> list[int]:
    """The numbers of `*`, `N` or `N-M`, each with an optional `/STEP`. `N/STEP` runs from N to the field's
    end.
    """
    span, _, step = part.partition("/")
    size = high - low + 1
    first, dash, last = span.partition("-")
    if span == "*":
        begin, length = low, size
    else:
        begin = int(first)
        end = int(last) if dash else (high if step else begin)
        length = (end - begin) % size + 1 if end != begin else 1
    return [low + (begin - low + n) % size for n in range(0, length, int(step or 1))]
