"""The table of where the tests' time goes, from files as pytest writes them."""

from __future__ import annotations

from pathlib import Path

from dev.timings import Timed, read, table

RUN = """<?xml version="1.0"?><testsuites><testsuite name="pytest" tests="2" time="31.0">
<testcase classname="tests.spark.test_drain" name="test_row2[window]" time="30.5" />
<testcase classname="tests.spark.test_drain" name="test_nothing_to_fire" time="0.5" />
</testsuite></testsuites>"""


def test_every_test_has_its_run_and_its_file(tmp_path: Path) -> None:
    (tmp_path / "spark41.xml").write_text(RUN)
    assert read(tmp_path) == [
        Timed("spark41", "tests/spark/test_drain.py", "test_row2[window]", 30.5),
        Timed("spark41", "tests/spark/test_drain.py", "test_nothing_to_fire", 0.5),
    ]


def test_the_table_names_the_slowest_file_and_what_is_over_the_budget() -> None:
    slow = Timed("spark41", "tests/spark/test_drain.py", "test_row2", 30.5)
    lines = table([Timed("spark41", "tests/test_shards.py", "test_quick", 19.9), slow])
    assert lines[1] == "     50      2  spark41"
    files = lines[lines.index("") + 2 :]
    assert files[0].endswith("tests/spark/test_drain.py (spark41)")
    over = lines[len(lines) - lines[::-1].index("") :]
    assert over == [
        "seconds  1 tests take longer than 20 s",
        "     30  tests/spark/test_drain.py::test_row2 (spark41)",
    ]
