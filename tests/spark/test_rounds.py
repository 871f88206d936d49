"""Rounds of a script with availableNow: each ends by itself and keeps its windows, the last one drains."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.protocol.lifecycle import Scenario

from .job import APP, Feed
from .terminal import Terminal, index

pytestmark = pytest.mark.any_spark


def start(state: Path, *options: str, feed: Feed) -> Terminal:
    return Terminal(state, APP, *options, arguments=feed.arguments("available-now"))


def test_windows_span_rounds_and_a_kill(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    """The windows of five minutes get rows from two rounds: each has four minutes of input, or six."""
    state = tmp_path / "state"
    commits = state / "checkpoints" / "main" / "0" / "commits"
    feed.add(4)
    code, shown = start(state, "--round", feed=feed).ended()
    assert code == 0, shown
    assert "the next start resumes from it" in shown
    first = index(state).latest
    assert first is not None
    assert (first.scenario, first.savepoint, first.stages[0].exhausted) == (Scenario.STOP, None, True)
    assert feed.output(spark) == []

    feed.add(6)
    killed = start(state, "--round", feed=feed)
    with killed:
        last = max(int(f.name) for f in commits.iterdir() if f.name.isdigit())
        killed.running(last + 2)
        os.killpg(killed.process.pid, signal.SIGKILL)
        assert killed.process.wait() == -signal.SIGKILL
    code, shown = start(state, "--round", feed=feed).ended()
    assert code == 0, shown

    feed.add(20)
    code, shown = start(state, "--round", feed=feed).ended()
    assert code == 0, shown
    so_far, expected = feed.output(spark), feed.expected(spark)
    assert so_far, "the watermark has passed the first windows"
    assert so_far == expected[: len(so_far)]
    assert len(so_far) < len(expected)

    code, shown = start(state, "--round", "--drain", feed=feed).ended()
    assert code == 0, shown
    assert "drained, nothing is left to resume" in shown
    assert feed.output(spark) == expected
