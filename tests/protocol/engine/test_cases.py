"""Every named life-cycle case of cases/*.txt. See case_scripts.py for how to read them."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.protocol.engine.case_scripts import Case, Script, load

CASES = load(Path(__file__).with_name("cases"))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.id)
def test_case(case: Case, module: ModuleType) -> None:
    Script(module).run_case(case)


def test_each_has_a_name_of_its_own() -> None:
    assert len({c.id for c in CASES}) == len(CASES)


def test_every_row_has_cases() -> None:
    """Row 8, the formats, has its own in test_adoption and test_index."""
    assert {c.row for c in CASES} | {8} == set(range(1, 15))
