"""That the harness would see what it is there to see. Without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from . import feed, header, reading
from .header import Script
from .judging import ALL, CLOSED, EITHER, judge
from .oracles import Row, fields, when, windows
from .running import Ended, Home

FILES = feed.files(1, 4)
ROWS = [row for file in FILES for row in file]
SCRIPT = Script("some", Path("some.py"), "", outputs={"out": "fields(rows, 'v')"})


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def write(home: Home, rows: list[Row], batches: int = 2) -> None:
    """As Spark's file sink does."""
    log = home.output / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(batches):
        part = home.output / "out" / f"part-{batch}.json"
        part.write_text("".join(json.dumps(row) + "\n" for row in rows[batch::batches]))
        (log / str(batch)).write_text("v1\n" + json.dumps({"path": part.as_uri(), "action": "add"}))
    (home.output / "out" / "part-9.json").write_text('{"v": "of a batch that was not committed"}\n')


def test_an_output_that_is_right(home: Home) -> None:
    write(home, fields(ROWS, "v"))
    assert judge(SCRIPT, home, FILES, "plain", CLOSED) == []


WRONG: dict[str, Callable[[list[Row]], list[Row]]] = {
    "1 lost": lambda rows: rows[1:],
    "1 too many": lambda rows: [*rows, rows[0]],
    "1 lost, 1 too many": lambda rows: [*rows[1:], {"v": -1}],
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_lost_and_what_is_there_twice(what: str, home: Home) -> None:
    write(home, WRONG[what](fields(ROWS, "v")))
    for prefixes in False, True:
        (problem,) = judge(SCRIPT, home, FILES, "kills", EITHER, prefixes=prefixes)
        assert all(part in problem for part in what.split(", ")), problem


def test_files_that_are_in_the_log_twice(home: Home) -> None:
    write(home, fields(ROWS, "v"))
    log = home.output / "out" / "_spark_metadata"
    (log / "2").write_text((log / "1").read_text())
    assert "too many" in judge(SCRIPT, home, FILES, "plain", CLOSED)[0]


def test_a_compacted_log_stands_for_what_was_before_it(home: Home) -> None:
    write(home, fields(ROWS, "v"))
    log = home.output / "out" / "_spark_metadata"
    entries = [(log / str(batch)).read_text().splitlines()[1] for batch in range(2)]
    (log / "1").unlink()
    (log / "1.compact").write_text("\n".join(["v1", *entries]))
    assert judge(SCRIPT, home, FILES, "plain", CLOSED) == []


def test_a_drain_ends_between_two_files_and_not_within_one(home: Home) -> None:
    read = [row for file in FILES[:2] for row in file]
    write(home, fields(read, "v"))
    assert judge(SCRIPT, home, FILES, "drain", ALL, prefixes=True) == []
    assert judge(SCRIPT, home, FILES, "drain", ALL) != []


def test_only_a_crash_repeats_and_it_loses_nothing(home: Home) -> None:
    script = Script("some", Path("some.py"), "", outputs=SCRIPT.outputs, repeats={"out": "an append"})
    write(home, [*fields(ROWS, "v"), *fields(FILES[0], "v")])
    assert judge(script, home, FILES, "kills", EITHER) == []
    assert judge(script, home, FILES, "stops", EITHER) != []


def test_no_row_is_late_and_some_windows_stay_open() -> None:
    for number in range(1, len(FILES)):
        before = max(when(row) for file in FILES[:number] for row in file)
        assert all((before - when(row)).total_seconds() < 5 * 60 for row in FILES[number])
    closed, everything = (windows(ROWS, minutes=5, delay=5, closed=c) for c in (True, False))
    assert 0 < len(closed) < len(everything)
    assert sum(row["n"] for row in everything) == len(ROWS)


def test_times_are_the_same_in_all_formats() -> None:
    row = {"start": when({"t": "2026-01-01T00:05:00Z"}), "n": None}
    assert reading.text(row) == reading.text({"start": "2026-01-01T00:05:00.000Z"})


def test_the_exception_that_ended_a_script_not_one_that_it_quotes() -> None:
    inner = "Outer: Return Message: Traceback (most recent call last):\n  File x\nValueError: inner"
    stderr = f"WARN\nTraceback (most recent call last):\n  File y\n{inner}\n"
    assert Ended(1, [], stderr, 0.0).exception == inner.splitlines()[0]


def test_each_header_says_what_the_harness_understands() -> None:
    scripts = [header.load(name) for name in header.names()]
    assert len(scripts) >= 34
    for script in scripts:
        for output in script.outputs:
            for closed in True, False:
                assert script.expected(output, ROWS, closed=closed) or "[]" in script.outputs[output], (
                    script.name
                )
                script.expected(output, [], closed=closed)
