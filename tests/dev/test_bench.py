"""What the benchmarks count with."""

from __future__ import annotations

import math
import os
import time
from pathlib import Path

import pytest

from dev.bench import threads, throughput, versions


@pytest.mark.parametrize("count", [8, 24, 72, 120])
def test_the_interval_holds_the_median_in_95_of_100_cases(count: int) -> None:
    low, high = throughput.interval([float(n) for n in range(count)])
    assert low + high == count - 1
    outside = 2 * sum(math.comb(count, below) for below in range(int(low) + 1)) / 2**count
    assert 0.95 < 1 - outside < 0.995


def test_versions_are_compared_within_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is twice as slow in the second round changes the seconds and not the ratio."""
    lives = iter([4.0, 6.0, 8.0, 12.0])
    monkeypatch.setattr(versions, "environments", lambda: {"4.1": Path("a"), "3.5": Path("b")})
    monkeypatch.setattr(versions, "rows_of", lambda home, keys: home)
    monkeypatch.setattr(versions, "_life", lambda *_: {"start": next(lives)})
    figures = versions.measure(2)
    assert figures["4.1"].samples == {"start": [4.0, 8.0]}
    assert figures["3.5"].samples == {"start": [6.0, 12.0], "start, Spark 4.1 = 1": [1.5, 1.5]}


@pytest.mark.parametrize("allowed", [True, False])
def test_what_a_process_works_is_counted(allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """In millions of instructions or in milliseconds, where the processor does not count."""
    if not allowed:
        monkeypatch.setattr(threads, "CALLS", {})
    with threads.work(os.getpid()) as counted:
        before = counted.read()
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass
        worked = sum(counted.read().values()) - sum(before.values())
    assert worked > 100
    assert allowed or counted.unit == "ms of processor time"
