"""Schedules: what each field admits, when the next moment comes, and that whatever is accepted can be read."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjob.api.cron import BOUNDS, PATTERN, schedule

START = "2026-01-02 03:04"  # a Friday


def at(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d %H:%M").replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("* * * * *", "2026-01-02 03:05"),
        ("0 3 * * *", "2026-01-03 03:00"),
        ("5 3 * * *", "2026-01-02 03:05"),
        ("4 3 * * *", "2026-01-03 03:04"),
        ("*/15 * * * *", "2026-01-02 03:15"),
        ("3,7,11 * * * *", "2026-01-02 03:07"),
        ("0 8-18/5 * * *", "2026-01-02 08:00"),
        ("50/5 * * * *", "2026-01-02 03:50"),
        ("0 22-2 * * *", "2026-01-02 22:00"),
        ("0 0 1 * *", "2026-02-01 00:00"),
        ("0 0 31 * *", "2026-01-31 00:00"),
        ("0 0 31 4,6,10 *", "2026-10-31 00:00"),
        ("0 0 29 2 *", "2028-02-29 00:00"),
        ("0 0 * * 0", "2026-01-04 00:00"),
        ("0 0 * * 7", "2026-01-04 00:00"),
        ("0 0 * * 1-5", "2026-01-05 00:00"),
        ("0 0 * * 5-7", "2026-01-03 00:00"),
        ("0 0 * * 6-1", "2026-01-03 00:00"),
        ("0 0 * 11-2 *", "2026-01-03 00:00"),
        ("0 0 15 * 0", "2026-01-04 00:00"),
        ("0 0 */2 * 1", "2026-01-05 00:00"),
        ("59 23 31 12 *", "2026-12-31 23:59"),
    ],
)
def test_next(text: str, expected: str) -> None:
    assert schedule(text).after(at(START)) == at(expected)


def test_a_day_that_never_comes() -> None:
    assert schedule("0 0 30 2 *").after(at(START)) is None


def test_a_rare_day_is_found() -> None:
    """29 February, and a Sunday as well: in 2032 and in 2060."""
    assert schedule("0 0 29 2 */7").after(at(START)) == at("2032-02-29 00:00")
    assert schedule("0 0 29 2 */7").after(at("2032-02-29 00:00")) == at("2060-02-29 00:00")


def test_it_is_in_utc() -> None:
    elsewhere = at("2026-01-02 03:04").astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert schedule("0 3 * * *").after(elsewhere) == at("2026-01-03 03:00")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * 0 *",
        "* * * * 8",
        "*/0 * * * *",
        "1- * * * *",
        ",1 * * * *",
        "@daily",
        "0 0 * jan *",
        "-1 * * * *",
        "*  * * * *",
        " * * * * *",
        "* * * * *\n",
        "1-2-3 * * * *",
        "1//2 * * * *",
        "007 * * * *",
        "? * * * *",
    ],
)
def test_refused(text: str) -> None:
    assert not re.fullmatch(PATTERN, text)


fields = [
    st.lists(
        st.builds(
            lambda a, b, step: (
                "*" + step if a is None else f"{a}" + (f"-{b}" if b is not None else "") + step
            ),
            st.none() | st.integers(low, high),
            st.none() | st.integers(low, high),
            st.sampled_from(["", "", "/1", "/2", "/7", "/40"]),
        ),
        min_size=1,
        max_size=3,
    ).map(",".join)
    for low, high in BOUNDS
]


@given(st.tuples(*fields).map(" ".join), st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1)))
@settings(max_examples=200, deadline=None)
def test_whatever_is_accepted_can_be_read(text: str, naive: datetime) -> None:
    """And the next moment is one, lies ahead, and none was passed over."""
    assert re.fullmatch(PATTERN, text)
    now, times = naive.replace(tzinfo=timezone.utc), schedule(text)
    found = times.after(now)
    if found is None:
        assert not any(times.has(now + timedelta(minutes=n)) for n in range(1, 2000))
        return
    assert found > now
    assert times.has(found)
    between = min(int((found - now) / timedelta(minutes=1)), 2000)
    first = now.replace(second=0, microsecond=0)
    assert not any(times.has(first + timedelta(minutes=n)) for n in range(1, between))
