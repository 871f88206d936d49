"""What pyspark's own query objects say and refuse is the same under the runtime."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .scripts import Script, said

pytestmark = pytest.mark.any_spark

QUESTIONS = """
def ask(what, *args):
    try:
        answer = what(*args)
        say(what.__name__, *args, "->", getattr(answer, "name", answer))
    except Exception as e:
        say(what.__name__, *args, "raises", *(kind.__name__ for kind in type(e).__mro__[:3]))


def go(name, function=lambda frame, batch: None):
    return read("in").writeStream.queryName(name).trigger(**OFTEN).foreachBatch(function).start()


def fails(frame, batch):
    raise RuntimeError("out of order")


streams = spark.streams
a, b = go("a"), go("b")
for timeout in "1", -1, 0:
    ask(a.awaitTermination, timeout)
    ask(streams.awaitAnyTermination, timeout)
ask(streams.get, "no id")
ask(lambda: streams.get(a.id))
ask(a.awaitTermination, 0.1)
ask(streams.awaitAnyTermination, 0.1)
a.stop()
ask(lambda: sorted(query.name for query in streams.active))
ask(lambda: (a.isActive, b.isActive, streams.get(a.id)))
ask(a.awaitTermination, 1)
ask(a.awaitTermination)
ask(streams.awaitAnyTermination, 2)
ask(streams.awaitAnyTermination)
streams.resetTerminated()
ask(streams.awaitAnyTermination, 0.1)
b.stop()
ask(streams.awaitAnyTermination)
ask(lambda: streams.active)
streams.resetTerminated()

c, d = go("c"), go("d", fails)
ask(streams.awaitAnyTermination)
ask(d.awaitTermination)
ask(lambda: (c.isActive, d.isActive, "out of order" in str(d.exception())))
c.stop()
ask(streams.awaitAnyTermination, 1)
streams.resetTerminated()
ask(streams.awaitAnyTermination, 0.1)
ask(d.awaitTermination, 1)
ask(lambda: go("a").stop())
"""


def test_r19_and_r20_questions_are_answered_as_by_spark(tmp_path: Path) -> None:
    """Also those that it refuses: it is asked itself."""
    script = Script(tmp_path, QUESTIONS)
    script.feed.minutes(0, 3)
    plain = tmp_path / "plain.log"
    with plain.open("w") as log:
        subprocess.run([sys.executable, script.file, tmp_path], stdout=log, stderr=log, check=True)
    answers = said(plain)
    assert "awaitAnyTermination 2 -> True" in answers
    assert "awaitTermination -1 raises PySparkValueError PySparkException ValueError" in answers
    with script.driver() as driver:
        assert driver.wait() == 0, driver.tail()
    assert said(driver.log) == answers


@pytest.mark.slow
def test_r22_a_memory_sink_is_started_again(tmp_path: Path) -> None:
    """It continues nowhere: each start has a checkpoint location of its own, and the
    table all of the input.
    """
    script = Script(
        tmp_path,
        """
        def count(mode, rows):
            query = rows.writeStream.queryName(mode).format("memory").outputMode(mode).start()
            query.processAllAvailable()
            found = [row.v for row in spark.table(mode).orderBy("v").collect()]
            query.stop()
            return found

        for run in range(2):
            say("append", count("append", read("in").select("v")))
            Path(home, "later").exists() and Path(home, "later").rename(Path(home, "in", "later.json"))
        for run in range(2):
            say("complete", count("complete", read("in").groupBy().agg(F.sum("v").alias("v"))))
        """,
    )
    script.feed.minutes(0, 3)
    script.feed.minutes(3, 5)
    (tmp_path / "in" / "00001.json").rename(tmp_path / "later")
    with script.driver() as driver:
        assert driver.wait() == 0, driver.tail()
    assert said(driver.log) == ["append [0, 1, 2]", "append [0, 1, 2, 3, 4]", *["complete [10]"] * 2]
