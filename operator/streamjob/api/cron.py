"""Schedules, as a CronJob has them: the five fields of cron (minute, hour, day of month, month, day of week)
or a macro such as `@daily`, in a time zone.

A field is a list of `*` (or `?`), numbers and ranges, each with an optional step: `0`, `*/15`, `8-18/2`,
`22-2` (over midnight). Months and weekdays have names too: `JAN`, `mon-fri`. Sunday is 0 and 7. If both
fields of the day are restricted, a day must match only one of them.

A moment is scheduled if its local time matches. A local time that a change of the clock leaves out is left
out; one that comes twice is scheduled twice.

Every text that matches PATTERN is a valid schedule. The API server refuses any other text, so no stored
schedule is unreadable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from functools import cache
from zoneinfo import ZoneInfo

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
NAMES = {name: str(n) for n, name in enumerate(MONTHS, 1)} | {name: str(n) for n, name in enumerate(WEEKDAYS)}
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
STEP = "(/[1-9][0-9]?)?"


def _list_of(number: str) -> str:
    one = f"([*?]|{number}(-{number})?){STEP}"
    return f"{one}(,{one})*"


MINUTE, HOUR, DAY = "[1-5]?[0-9]", "(1?[0-9]|2[0-3])", "([1-9]|[12][0-9]|3[01])"
MONTH, WEEKDAY = f"([1-9]|1[0-2]|(?i:{'|'.join(MONTHS)}))", f"([0-7]|(?i:{'|'.join(WEEKDAYS)}))"
FIELDS = " ".join(map(_list_of, (MINUTE, HOUR, DAY, MONTH, WEEKDAY)))
PATTERN = f"({FIELDS}|{'|'.join(MACROS)})"
BOUNDS = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
YEARS = 9  # within this many years there is a 29 February, even around 2100


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
    zone: ZoneInfo

    def has(self, moment: datetime) -> bool:
        """Whether the schedule includes this moment, to the minute."""
        local = moment.astimezone(self.zone)
        return self._has_day(local.date()) and local.hour in self.hours and local.minute in self.minutes

    def after(self, moment: datetime) -> datetime | None:
        """The first scheduled moment after this one, in UTC; None if there is none (30 February)."""
        start = moment.astimezone(timezone.utc).replace(second=0, microsecond=0) + timedelta(minutes=1)
        today = start.astimezone(self.zone).date()
        for n in range(366 * YEARS):
            day = today + timedelta(days=n)
            if self._has_day(day) and (found := list(self._first(day, start))):
                return min(found)
        return None

    def _first(self, day: date, start: datetime) -> Iterator[datetime]:
        """The first scheduled moment of a day, from `start` on, for each offset from UTC that the day has."""
        ends = (datetime.combine(day + timedelta(days=n), time(), self.zone) for n in (0, 1))
        for offset in {end.utcoffset() for end in ends}:
            fixed = timezone(offset or timedelta())
            times = (datetime.combine(day, time(h, m), fixed) for h in self.hours for m in self.minutes)
            found = next((t for t in times if t >= start and self._is_local(t)), None)
            if found is not None:
                yield found.astimezone(timezone.utc)

    def _is_local(self, moment: datetime) -> bool:
        """Whether the zone has the offset of this moment then."""
        return moment.astimezone(self.zone).utcoffset() == moment.utcoffset()

    def _has_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (in_month or in_week) if self.either else (in_month and in_week)


@cache
def schedule(text: str, zone: str | None = None) -> Schedule:
    """Parse a schedule.

    :param text: must match PATTERN.
    :param zone: an IANA name; None: UTC.
    """
    fields = MACROS.get(text, text).split(" ")
    minutes, hours, days, months, weekdays = (
        frozenset(n for part in field.split(",") for n in _numbers(part, *bounds))
        for field, bounds in zip(fields, BOUNDS, strict=True)
    )
    either = not any(part in ("*", "?", "*/1", "?/1") for n in (2, 4) for part in fields[n].split(","))
    local = ZoneInfo(zone or "UTC")
    return Schedule(tuple(sorted(minutes)), tuple(sorted(hours)), days, months, weekdays, either, local)


def _numbers(part: str, low: int, high: int) -> list[int]:
    """The numbers of `*`, `N` or `N-M`, each with an optional `/STEP`. `N/STEP` runs from N to the field's
    end.
    """
    span, _, step = part.partition("/")
    size = high - low + 1
    first, dash, last = span.partition("-")
    if span in ("*", "?"):
        begin, length = low, size
    else:
        first, last = (NAMES.get(name.lower(), name) for name in (first, last))
        begin = int(first)
        end = int(last) if dash else (high if step else begin)
        length = (end - begin) % size + 1 if end != begin else 1
    return [low + (begin - low + n) % size for n in range(0, length, int(step or 1))]
