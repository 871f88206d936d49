"""What queries give, computed in plain Python. The functions that the headers of the scripts call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

Row = dict[str, Any]


def when(row: Row) -> datetime:
    return datetime.fromisoformat(row["t"])


def watermark(rows: list[Row], delay: int) -> datetime:
    """After all of the rows. No row is ever late: see `feed`."""
    return max(map(when, rows)) - timedelta(minutes=delay)


def fields(rows: Iterable[Row], *names: str) -> list[Row]:
    return [{name: row.get(name) for name in names} for row in rows]


def distinct(rows: Iterable[Row], *names: str) -> list[Row]:
    return list({tuple(row[n] for n in names): row for row in rows}.values())


def kind(rows: list[Row], name: str) -> list[Row]:
    return [row for row in rows if row["kind"] == name]


def below(rows: list[Row], v: int) -> list[Row]:
    """Those before some row of the input."""
    return [row for row in rows if row["v"] < v]


def words(rows: list[Row]) -> list[Row]:
    """How often each word occurs in the texts."""
    found = Counter(word for row in rows for word in row["text"].split())
    return [{"word": word, "count": n} for word, n in found.items()]


def totals(rows: list[Row], key: str = "k") -> list[Row]:
    """Number and sum of each key."""
    return _groups(rows, lambda row: {key: row[key]})


def windows(
    rows: list[Row], minutes: int, delay: int, *, closed: bool, slide: int = 0, key: str = "k", after: int = 0
) -> list[Row]:
    """Number and sum of each window and key.

    :param delay: of the watermark.
    :param slide: between the starts of two windows, if they overlap.
    :param closed: only those that the watermark has closed.
    :param after: they are held back that many minutes longer.
    """
    if not rows:
        return []
    step, length = timedelta(minutes=slide or minutes), timedelta(minutes=minutes)
    spread = []
    for row in rows:
        start = when(row).replace(minute=0, second=0)
        start += (when(row) - start) // step * step
        while start > when(row) - length:
            spread.append({**row, "start": start})
            start -= step
    if closed:
        limit = watermark(rows, delay) - timedelta(minutes=after)
        spread = [row for row in spread if row["start"] + length <= limit]
    return _groups(spread, lambda row: {"start": row["start"], **({key: row[key]} if key else {})})


def _groups(rows: Iterable[Row], key: Callable[[Row], Row]) -> list[Row]:
    def order(row: Row) -> str:
        return repr(sorted(key(row).items()))

    found = []
    for _, group in groupby(sorted(rows, key=order), order):
        of_group = list(group)
        found.append({**key(of_group[0]), "n": len(of_group), "s": sum(row["v"] for row in of_group)})
    return found


def reminders(rows: list[Row], delay: int, steps: list[int], *, closed: bool) -> list[Row]:
    """A timer for each of `steps`, minutes after the first event of a key."""
    found = []
    for key in sorted({row["k"] for row in rows}):
        first = min(when(row) for row in rows if row["k"] == key)
        for number, minutes in enumerate(steps, 1):
            if not closed or first + timedelta(minutes=minutes) <= watermark(rows, delay):
                found.append({"k": key, "step": number})
    return found


def key_sessions(rows: list[Row], delay: int, gap: int, *, closed: bool) -> list[Row]:
    """How many events of a key there are in five minutes: known when the watermark is `gap` minutes behind
    the last.
    """

    def part(row: Row) -> str:
        return f"{row['k']} {when(row):%H} {when(row).minute // 5}"

    found = []
    for name in sorted({part(row) for row in rows}):
        times = [when(row) for row in rows if part(row) == name]
        if not closed or max(times) + timedelta(minutes=gap) < watermark(rows, delay):
            found.append({"part": name, "n": len(times)})
    return found


def window_of_windows(rows: list[Row], inner: int, outer: int, delay: int, *, closed: bool) -> list[Row]:
    """How many inner windows of all keys an outer one holds, and the largest of their sums."""
    step = timedelta(minutes=outer)
    found: dict[datetime, list[int]] = {}
    for row in windows(rows, inner, delay, closed=False):
        start = row["start"].replace(minute=0)
        start += (row["start"] - start) // step * step
        found.setdefault(start, []).append(row["s"])
    limit = watermark(rows, delay) if closed and rows else None
    return [
        {"start": start, "n": len(sums), "largest": max(sums)}
        for start, sums in found.items()
        if limit is None or start + step <= limit
    ]


def clicks_of_views(rows: list[Row], minutes: int, delay: int, *, closed: bool) -> list[Row]:
    """Each view with each click on it within some minutes; one that has none, when none can come any more."""
    if not rows:
        return []
    views, clicks = kind(rows, "view"), kind(rows, "click")
    limit = min(watermark(views, delay), watermark(clicks, delay))
    found: list[Row] = []
    for view in views:
        last = when(view) + timedelta(minutes=minutes)
        on_it = [c for c in clicks if c.get("ref") == view["v"] and when(view) <= when(c) <= last]
        found += [{"impressionAdId": view["v"], "click": click["v"]} for click in on_it]
        if not on_it and not (closed and last >= limit):
            found.append({"impressionAdId": view["v"]})
    return found


def clicks_by_key(rows: list[Row], v: int) -> list[Row]:
    """Each row before `v` with each click of the same key."""
    clicks = kind(rows, "click")
    return [
        {"k": a["k"], "v": a["v"], "click": c["v"]}
        for a in below(rows, v)
        for c in clicks
        if c["k"] == a["k"]
    ]
