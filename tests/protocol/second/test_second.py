"""Some plans of the second tester for every commit, and proof that it notices mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from streamjob.protocol.engine.coordinator import Coordinator

from .mistakes import MISTAKES
from .plan import Scope
from .run import play

PLANS = 80
ENOUGH = 400
CLEAN = (Scope.MARKED, Scope.GENTLE)
# What the engine gets wrong outside of these two scopes, with plans that show it.
KNOWN = {
    # A reader's windows are out, and the driver dies before a record says so. Its writer has no windows, so
    # no mark. The next epoch is not asked to end: the writer reads on, and nobody reads what it writes.
    "a writer reads on behind a reader that a dead driver has flushed": (425, 1188, 1535, 1792, 1850),
}
REPAIRED = {
    # The same, and the next epoch drains. The writer started first and counted as one that may bring out
    # rows (`TaskStarted.emits`). It was stopped instead of flushed, in each drain that followed.
    "a writer behind such a reader is drained": (411, 617, 1650, 1831),
    # A drain or stop that is announced and not yet taken up: the start of a new writer of such a reader was
    # refused, although it reads nothing. The script failed in front of its wait, in each epoch.
    "an epoch begins although a request is only announced": (519, 2274),
}


def failures(seeds: Iterable[int], scope: Scope) -> list[str]:
    return [str(failure) for seed in seeds if (failure := play(seed, scope))]


@pytest.mark.parametrize("scope", CLEAN)
def test_each_row_comes_out_once_and_each_job_ends(scope: Scope) -> None:
    wrong = failures(range(1, PLANS + 1), scope)
    assert not wrong, "\n".join(wrong)


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="known, see KNOWN")
@pytest.mark.parametrize("kind", KNOWN)
def test_what_is_known_to_be_wrong(kind: str) -> None:
    wrong = failures(KNOWN[kind], Scope.ANY)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", REPAIRED)
def test_what_was_wrong(kind: str) -> None:
    wrong = failures(REPAIRED[kind], Scope.ANY)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_tester_notices_a_mistake(mistake: Callable[..., Coordinator]) -> None:
    seeds = range(1, ENOUGH + 1)
    assert any(play(seed, scope, mistake) for seed in seeds for scope in CLEAN)
