"""Where the time of the tests goes: read from the JUnit files that dev/test.sh writes into .build/timings.

    python -m dev.timings

Prints the slowest files and the tests that take longer than a test may without the mark `slow`.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

FOLDER = Path(".build/timings")
BUDGET = 20.0  # seconds: a test that takes longer is marked slow if a quicker one shows the same
FILES = 25  # that are shown


@dataclass(frozen=True)
class Timed:
    """One test of one run."""

    run: str
    file: str
    name: str
    seconds: float


def read(folder: Path) -> list[Timed]:
    """Every test of every run that left a whole file; a run that was killed leaves none."""
    found = []
    for path in sorted(folder.glob("*.xml")):
        for case in ElementTree.parse(path).iter("testcase"):
            file = case.get("classname", "").replace(".", "/") + ".py"
            found.append(Timed(path.stem, file, case.get("name", ""), float(case.get("time", 0))))
    return found


def table(tests: list[Timed]) -> list[str]:
    """Lines for a terminal: each run, the slowest files, the tests over the budget."""
    runs: dict[str, list[float]] = defaultdict(list)
    files: dict[tuple[str, str], list[float]] = defaultdict(list)
    for test in tests:
        runs[test.run].append(test.seconds)
        files[test.run, test.file].append(test.seconds)
    lines = ["seconds  tests  run"]
    lines += [f"{sum(times):7.0f} {len(times):6}  {run}" for run, times in sorted(runs.items())]
    lines += ["", f"seconds  tests  the {FILES} slowest files"]
    slowest = sorted(files.items(), key=lambda entry: -sum(entry[1]))[:FILES]
    lines += [f"{sum(times):7.0f} {len(times):6}  {file} ({run})" for (run, file), times in slowest]
    over = sorted((t for t in tests if t.seconds > BUDGET), key=lambda t: -t.seconds)
    lines += ["", f"seconds  {len(over)} tests take longer than {BUDGET:.0f} s"]
    lines += [f"{t.seconds:7.0f}  {t.file}::{t.name} ({t.run})" for t in over]
    return lines


if __name__ == "__main__":
    timed = read(FOLDER)
    if not timed:
        sys.exit(f"no timings in {FOLDER}: run make test first")
    print("\n".join(table(timed)))
