"""Whether what lies in a script's output folder is what the oracle says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from . import reading
from .header import Script
from .oracles import Row
from .running import Home

CLOSED, ALL = (True,), (False,)  # what plain python gives; all windows and timers out
EITHER = (True, False)  # of a script that has ended under the runtime


def judge(
    script: Script,
    home: Home,
    files: list[list[Row]],
    way: str,
    forms: tuple[bool, ...],
    *,
    prefixes: bool = False,
) -> list[str]:
    """What is wrong.

    :param forms: which of the oracle's answers each output may be.
    :param prefixes: not all of the input has to have been read: what is in the outputs is the answer for its
        first files.
    """
    found = {
        output: _counted(home, output) for output in script.outputs if way in script.only.get(output, [way])
    }
    possible = list(range(len(files), -1, -1)) if prefixes else [len(files)]
    wrong: dict[int, list[str]] = {}
    for number in possible:
        rows = [row for file in files[:number] for row in file]
        wrong[number] = [
            problem
            for output, lines in found.items()
            if (problem := _compare(script, output, rows, lines, way, forms))
        ]
        if not wrong[number]:
            return []
    if script.independent and prefixes:
        matched = {
            output
            for output in found
            for n in possible
            if not any(p.startswith(f"{output}:") for p in wrong[n])
        }
        if matched == found.keys():
            return []
    best = min(possible, key=lambda n: len(wrong[n]))
    return [f"{problem}{f' (as of the first {best} files)' if prefixes else ''}" for problem in wrong[best]]


def _counted(home: Home, output: str) -> Counter[str] | str:
    try:
        return Counter(map(reading.text, reading.read(home.output / output)))
    except (OSError, ValueError) as e:
        return f"cannot be read: {e}"


def _compare(
    script: Script, output: str, rows: list[Row], found: Counter[str] | str, way: str, forms: Iterable[bool]
) -> str:
    if isinstance(found, str):
        return f"{output}: {found}"
    problem = ""
    for closed in forms:
        expected = Counter(map(reading.text, script.expected(output, rows, closed=closed)))
        may_repeat = way == "kills" and output in script.repeats
        lost, surplus = expected - found, found - expected
        if may_repeat:
            surplus = Counter({line: n for line, n in surplus.items() if line not in expected})
        if not lost and not surplus:
            return ""
        whole = f"{output}: {found.total()} rows where {expected.total()} are expected"
        this = f"{whole}; {lost.total()} lost{_some(lost)}; {surplus.total()} too many{_some(surplus)}"
        problem = min(filter(None, (problem, this)), key=len)
    return problem


def _some(lines: Counter[str]) -> str:
    return f": {', '.join(sorted(lines)[:3])}" if lines else ""
