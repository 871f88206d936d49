"""The runtime without Kubernetes: Ctrl-C stops with a savepoint, the next start goes on, --drain ends for good."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from .job import APP, Feed
from .terminal import Terminal, index

pytestmark = pytest.mark.any_spark


def start(state: Path, *options: str, feed: Feed) -> Terminal:
    return Terminal(state, APP, *options, arguments=feed.arguments())


def test_stop_go_on_and_drain_from_a_shell(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.add(6)
    state = tmp_path / "state"
    first = start(state, feed=feed).running(1)
    code, shown = start(state, feed=feed).ended()
    assert (code, "another process runs" in shown) == (2, True), shown
    code, shown = first.interrupt().ended()
    assert code == 0, shown
    stopped = index(state).latest
    assert stopped is not None
    assert (
        f"checkpoint {stopped.checkpoint}, savepoint {stopped.savepoint}: the next start goes on from it"
        in shown
    )
    code, shown = start(state, "--restore", str(stopped.savepoint), feed=feed).ended()
    assert (code, "has checkpoints of its own" in shown) == (2, True), shown
    code, shown = start(state, feed=feed).running(5).interrupt().ended()
    assert code == 0, shown
    code, shown = start(state, "--drain", feed=feed).ended()
    assert code == 0, shown
    assert "drained, nothing is left to resume" in shown
    ends = [r for r in index(state).checkpoints if r.scenario is not None]
    assert [r.drained for r in ends] == [False, False, True]
    assert feed.output(spark) == feed.expected(spark)


def test_the_second_interrupt_cancels_and_nothing_is_lost(feed: Feed, tmp_path: Path) -> None:
    feed.add(3)
    obstacle = tmp_path / "savepoints"
    obstacle.write_text("a file where a folder is needed, so that the stop cannot come to its end")
    first = start(tmp_path, feed=feed).running(1).interrupt()
    first.shows("Stop: WritingSavepoint", str(obstacle))
    code, shown = first.interrupt().ended()
    assert (code, "cancelled" in shown) == (130, True), shown
    assert not [r for r in index(tmp_path).checkpoints if r.scenario is not None]
    obstacle.unlink()
    code, shown = start(tmp_path, "--drain", feed=feed).ended()
    assert code == 0, shown
    record = index(tmp_path).latest
    assert record is not None
    assert record.drained
