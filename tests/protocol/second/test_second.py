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
# What the engine has got wrong, with plans that showed it.
REPAIRED = {
    # A reader's windows were out, and the driver died before a record said so. Its writer has no windows, so
    # nothing in its directory said that it had ended: it read on, and nobody read what it wrote.
    "a writer reads on behind a reader that a dead driver has flushed": (425, 1188, 1535, 1792, 1850),
    # The same writer, in the record of a stop: a shard of the reader has its flag, and the writer reads on.
    "a writer is not finished, and one of its readers is flagged": (21148, 106372),
    # A reader that an earlier epoch had drained got no flag, as its upstream had not started. What reads from
    # it got one, so no epoch could begin with the record.
    "what reads from a stage without a flag is flagged": (1830,),
    # A drain waits for nothing that has consumed its input. It starts behind its flushed reader, has nothing
    # to bring out, and was stopped instead of flushed, in each drain.
    "a stage that has consumed its input starts behind a reader that the drain has flushed": (102837,),
    # The same, and the next epoch drains. The writer started first and counted as one that may bring out
    # rows (`TaskStarted.emits`). It was stopped instead of flushed, in each drain that followed.
    "a writer behind such a reader is drained": (411, 617, 1650, 1831),
    # A drain or stop that is announced and not yet taken up: the start of a new writer of such a reader was
    # refused, although it reads nothing. The script failed in front of its wait, in each epoch.
    "an epoch begins although a request is only announced": (519, 2274),
}


def failures(seeds: Iterable[int], scope: Scope) -> list[str]:
    return [str(failure) for seed in seeds if (failure := play(seed, scope))]


@pytest.mark.parametrize("scope", Scope)
def test_each_row_comes_out_once_and_each_job_ends(scope: Scope) -> None:
    wrong = failures(range(1, PLANS + 1), scope)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", REPAIRED)
def test_what_was_wrong(kind: str) -> None:
    wrong = failures(REPAIRED[kind], Scope.ANY)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_tester_notices_a_mistake(mistake: Callable[..., Coordinator]) -> None:
    seeds = range(1, ENOUGH + 1)
    assert any(play(seed, scope, mistake) for seed in seeds for scope in Scope)
