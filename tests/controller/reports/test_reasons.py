"""Reasons are an interface: the manual has each, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from .reasons import all_reasons

DOCS = Path(__file__).parents[3] / "docs"
MANUAL = "\n".join((DOCS / name).read_text() for name in ("reasons.md", "operations.md"))


def test_every_reason_is_in_the_manual() -> None:
    assert all_reasons() <= set(re.findall(r"[A-Za-z]+", MANUAL))


def test_the_manual_names_no_reason_that_is_none() -> None:
    """Those that the code takes over from Kubernetes are constants of diagnosis.py."""
    conditions = (DOCS / "reasons.md").read_text().partition("## Conditions")[2]
    first_cells = re.findall(r"^\| ([A-Z]\w+(?:, [A-Z]\w+)*) \|", conditions, re.MULTILINE)
    named = {reason for cell in first_cells for reason in cell.split(", ")}
    code = "".join(p.read_text() for p in (Path(__file__).parents[3] / "operator").rglob("*.py"))
    assert {reason for reason in named - all_reasons() if f'"{reason}"' not in code} == set()


def test_the_list_sees_what_there_is() -> None:
    """One of each way in which the code names a reason."""
    assert {
        "StorageFull",
        "SavepointExists",
        "IndexMissing",
        "CheckpointCompleted",
        "RestartLimitReached",
    } <= all_reasons()
