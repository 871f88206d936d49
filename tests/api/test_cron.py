"""Schedules: what each field admits, when the next moment comes, and that whatever is
accepted can be read.
"""

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
        ("0 0 */2 * 1", "2026-01-03 00:00"),
        ("0 0 */1 * 1", "2026-01-05 00:00"),
        ("0 0 ? * MON", "2026-01-05 00:00"),
        ("0 0 * * sat-Sun", "2026-01-03 00:00"),
        ("0 0 1 MAR,jun *", "2026-03-01 00:00"),
        ("0 0 * * FRI-MON/3", "2026-01-05 00:00"),
        ("@hourly", "2026-01-02 04:00"),
        ("@daily", "2026-01-03 00:00"),
        ("@midnight", "2026-01-03 00:00"),
        ("@weekly", "2026-01-04 00:00"),
        ("@monthly", "2026-02-01 00:00"),
        ("@yearly", "2027-01-01 00:00"),
        ("@annually", "2027-01-01 00:00"),
        ("59 23 31 12 *", "2026-12-31 23:59"),
    ],
)
def test_next(text: str, expected: str) -> None:
    assert schedule(text).after(at(START)) == at(expected)


def test_a_day_that_never_comes() -> None:
    assert schedule("0 0 30 2 *").after(at(START)) is None


def test_a_rare_day_is_found() -> None:
    """29 February: 2100 has none."""
    assert schedule("0 0 29 2 *").after(at(START)) == at("2028-02-29 00:00")
    assert schedule("0 0 29 2 *").after(at("2096-02-29 00:00")) == at("2104-02-29 00:00")


@pytest.mark.parametrize(
    ("text", "zone", "after", "expected"),
    [
        ("30 9 * * *", "Europe/Berlin", "2026-01-02 03:04", "2026-01-02 08:30"),
        ("30 9 * * *", "Europe/Berlin", "2026-07-02 03:04", "2026-07-02 07:30"),
        ("30 9 * * *", "Asia/Kolkata", "2026-01-02 03:04", "2026-01-02 04:00"),
        ("0 0 1 1 *", "Pacific/Auckland", "2026-06-01 00:00", "2026-12-31 11:00"),
        # 29 March: 02:00 becomes 03:00. 02:30 is left out; each quarter of an hour continues.
        ("30 2 * * *", "Europe/Berlin", "2026-03-28 12:00", "2026-03-30 00:30"),
        ("*/15 * * * *", "Europe/Berlin", "2026-03-29 00:45", "2026-03-29 01:00"),
        # 25 October: 03:00 becomes 02:00. 02:30 comes twice, as for a CronJob.
        ("30 2 * * *", "Europe/Berlin", "2026-10-24 12:00", "2026-10-25 00:30"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25 00:30", "2026-10-25 01:30"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25 01:30", "2026-10-26 01:30"),
        ("*/15 * * * *", "Europe/Berlin", "2026-10-25 00:45", "2026-10-25 01:00"),
        # Half an hour, and at midnight.
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04 12:00", "2026-04-04 14:45"),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04 14:45", "2026-04-04 15:15"),
        ("15 0 * * *", "Africa/Cairo", "2026-04-23 12:00", "2026-04-24 21:15"),
    ],
)
def test_a_time_zone(text: str, zone: str, after: str, expected: str) -> None:
    found = schedule(text, zone).after(at(after))
    assert found == at(expected)
    assert schedule(text, zone).has(at(expected))


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
        "@every 1h",
        "@Daily",
        "TZ=UTC 0 0 * * *",
        "0 0 * mon *",
        "jan * * * *",
        "0 0 * * monday",
        "-1 * * * *",
        "*  * * * *",
        " * * * * *",
        "* * * * *\n",
        "1-2-3 * * * *",
        "1//2 * * * *",
        "007 * * * *",
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


@given(
    st.tuples(*fields).map(" ".join),
    st.datetimes(datetime(2026, 1, 1), datetime(2030, 1, 1)) | st.just(datetime(2026, 10, 24, 23)),
    st.sampled_from([None, "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
)
@settings(max_examples=200, deadline=None)
def test_whatever_is_accepted_can_be_read(text: str, naive: datetime, zone: str | None) -> None:
    """And the next moment is one, lies ahead, and none was passed over."""
    assert re.fullmatch(PATTERN, text)
    now, times = naive.replace(tzinfo=timezone.utc), schedule(text, zone)
    found = times.after(now)
    if found is None:
        assert not any(times.has(now + timedelta(minutes=n)) for n in range(1, 2000))
        return
    assert found > now
    assert times.has(found)
    between = min(int((found - now) / timedelta(minutes=1)), 2000)
    first = now.replace(second=0, microsecond=0)
    assert not any(times.has(first + timedelta(minutes=n)) for n in range(1, between))
