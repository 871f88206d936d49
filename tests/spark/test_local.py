"""The runtime without Kubernetes: Ctrl-C stops with a savepoint, the next start goes on, --drain ends for good."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import streamjob
from streamjob.protocol import index as indices
from streamjob.protocol.index import Index

from .feeds import eventually
from .job import APP, Feed

pytestmark = pytest.mark.any_spark


class Terminal:
    """One start of a script from a shell."""

    def __init__(self, state: Path, *options: str, feed: Feed) -> None:
        self.state = state
        self.log = state.parent / f"terminal-{uuid.uuid4().hex}.log"
        source = str(Path(streamjob.__file__).parents[1])
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "streamjob.runtime",
                "--local",
                "--state",
                state,
                *options,
                str(APP),
                *feed.arguments(),
            ],
            env={**os.environ, "PYTHONPATH": source},
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def running(self, batches: int) -> Terminal:
        self.shows("streamjob: Running")
        commits = self.state / "checkpoints" / "main" / "0" / "commits"
        eventually((commits / str(batches)).exists, f"batch {batches}")
        return self

    def shows(self, *words: str) -> Terminal:
        def shown() -> bool:
            return any(all(w in line for w in words) for line in self.log.read_text().splitlines())

        eventually(shown, f"a line with {words}")
        return self

    def interrupt(self) -> Terminal:
        """Ctrl-C: to the whole process group, as a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self

    def ended(self) -> tuple[int, str]:
        """Exit code and what was shown."""
        return self.process.wait(timeout=300), self.log.read_text()


def index(state: Path) -> Index:
    return indices.loads((state / "index.json").read_text(), "index.json")


def test_stop_go_on_and_drain_from_a_shell(spark: SparkSession, feed: Feed, tmp_path: Path) -> None:
    feed.add(6)
    state = tmp_path / "state"
    first = Terminal(state, feed=feed).running(1)
    code, shown = Terminal(state, feed=feed).ended()
    assert (code, "another process runs" in shown) == (2, True), shown
    code, shown = first.interrupt().ended()
    assert code == 0, shown
    stopped = index(state).latest
    assert stopped is not None
    assert (
        f"checkpoint {stopped.checkpoint}, savepoint {stopped.savepoint}: the next start goes on from it"
        in shown
    )
    code, shown = Terminal(state, "--restore", str(stopped.savepoint), feed=feed).ended()
    assert (code, "has checkpoints of its own" in shown) == (2, True), shown
    code, shown = Terminal(state, feed=feed).running(5).interrupt().ended()
    assert code == 0, shown
    code, shown = Terminal(state, "--drain", feed=feed).ended()
    assert code == 0, shown
    assert "drained, nothing is left to resume" in shown
    ends = [r for r in index(state).checkpoints if r.scenario is not None]
    assert [r.drained for r in ends] == [False, False, True]
    assert feed.output(spark) == feed.expected(spark)


def test_the_second_interrupt_cancels_and_nothing_is_lost(feed: Feed, tmp_path: Path) -> None:
    feed.add(3)
    obstacle = tmp_path / "savepoints"
    obstacle.write_text("a file where a folder is needed, so that the stop cannot come to its end")
    first = Terminal(tmp_path, feed=feed).running(1).interrupt()
    first.shows("Stop: WritingSavepoint", str(obstacle))
    code, shown = first.interrupt().ended()
    assert (code, "cancelled" in shown) == (130, True), shown
    assert not [r for r in index(tmp_path).checkpoints if r.scenario is not None]
    obstacle.unlink()
    code, shown = Terminal(tmp_path, "--drain", feed=feed).ended()
    assert code == 0, shown
    record = index(tmp_path).latest
    assert record is not None
    assert record.drained
