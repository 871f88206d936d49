"""What `kubectl streamjob diagnose` knows of each reason: the tables of docs/reasons.md,
and those about Spark's UI of docs/operations.md, as JSON.

python -m dev.docs.remedies > operator/streamjob/cli/diagnosis/remedies.json
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = ("reasons.md", "operations.md")
ROW = re.compile(r"^\| ([A-Z]\w+(?:, [A-Z]\w+)*) \| (.+?) \| (.+?) \|$", re.MULTILINE)


def manual() -> str:
    return "\n".join((ROOT / "docs" / page).read_text() for page in PAGES)


def remedies(text: str) -> dict[str, dict[str, str]]:
    """By reason: what is wrong, and what to do; as `warning`, what to do about a warning of this name.

    If a reason has several rows, the first counts.
    """
    found: dict[str, dict[str, str]] = {}
    for reasons, what, remedy in _rows(text):
        for reason in reasons.split(", "):
            entry = found.setdefault(reason, {"what": _plain(what), "remedy": _plain(remedy)})
            if "status.warnings" in what:
                entry["warning"] = _plain(remedy)
    return dict(sorted(found.items()))


def _rows(text: str) -> Iterator[tuple[str, str, str]]:
    conditions = text.partition("## Conditions")[2].partition("## Events")[0]
    ui = text.partition("## Spark's UI")[2].partition("## The History Server")[0]
    for part in (conditions, ui):
        for row in ROW.finditer(part):
            if row[2] != "nothing":
                yield row[1], row[2], row[3]


def _plain(text: str) -> str:
    text = re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)
    text = re.sub(r"(?<![*\w])\*([^*]+)\*(?![*\w])", r"\1", text)
    return text.replace("\\|", "|")


def main() -> None:
    print(json.dumps(remedies(manual()), indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
