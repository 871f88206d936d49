"""What came of a plan, and how to see it again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from .ground_truth import Violation
from .plan import Plan, random_plan


@dataclass
class Outcome:
    """What came of a plan. `effects`: what each was, by its ordinal."""

    plan: Plan
    violation: Violation | None
    trace: list[tuple[float, str, str]]
    effects: list[str]
    made: Counter[str]
    seconds: float

    @property
    def replay(self) -> str:
        """The command that shows it again, step by step."""
        command = "PYTHONPATH=operator .venv/bin/python -m tests.world"
        if self.plan == random_plan(self.plan.seed):
            return f"{command} --seed {self.plan.seed} --verbose"
        faults = "".join(f' --fault "{n}:{kind.value}"' for n, kind in self.plan.faults)
        return f"{command} --scenario {self.plan.name!r}{faults} --verbose"

    def __str__(self) -> str:
        lines = [f"{at:9.3f}  {who:14} {what}" for at, who, what in self.trace]
        return "\n".join(lines)
