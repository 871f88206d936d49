"""Many plans side by side: all are run, and the first that breaks something ends it with the command that
shows it again.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from . import soak
from .ground_truth import Violation
from .outcome import Outcome
from .world import World


class Broken(World):
    """Seed 3 breaks something."""

    def run(self) -> Outcome:
        outcome = super().run()
        return replace(outcome, violation=Violation("V0: so")) if self.plan.seed == 3 else outcome


def test_every_plan_is_run_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.soak(3, 9, None, 2) == 0
    alone = soak.run(range(3, 12))
    assert capsys.readouterr().out.startswith(f"9 plans (seeds from 3 on), {alone.effects} effects, ")


def test_the_first_that_breaks_something_ends_it_with_its_replay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(soak, "World", Broken)
    assert soak.soak(0, 10_000, None, 2) == 1
    said = capsys.readouterr()
    assert "seed 3: V0: so" in said.out
    assert "replay: PYTHONPATH=operator .venv/bin/python -m tests.world --seed 3 --verbose" in said.out
    assert "plans/s" in said.err
