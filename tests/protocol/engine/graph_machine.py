"""The random jobs of `randomjob`, chosen by Hypothesis: it makes a failing one smaller."""

from __future__ import annotations

from random import Random
from types import ModuleType
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.protocol.engine.randomjob import ACTIONS, RandomJob

seeds = st.integers(0, 2**16)
actions = st.sampled_from([name for name, weight in ACTIONS.items() for _ in range(weight)])


class Job(RuleBasedStateMachine):
    module: ModuleType

    @initialize(seed=seeds)
    def begin(self, seed: int) -> None:
        self.job = RandomJob(self.module, Random(seed))

    @rule(action=actions, seed=seeds)
    def act(self, action: str, seed: int) -> None:
        self.job.random.seed(seed)
        self.job.act(action)

    def teardown(self) -> None:
        if hasattr(self, "job"):
            self.job.end()


def machine(coordinator: ModuleType, examples: int, steps: int) -> Any:
    """A test case class for the engine in this module."""
    built: Any = type("GraphJob", (Job,), {"module": coordinator})
    built.TestCase.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        # With CI set, Hypothesis draws the same examples each time: a gate has to be repeatable. Elsewhere it
        # continues searching.
        derandomize=settings().derandomize,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    return built
