"""A job resumes with another version of Spark than the one that wrote its checkpoint."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.runtime.spark.versions.table import line, order

from .feeds import eventually
from .scripts import Script
from .terminal import Terminal

ROOT = Path(__file__).parents[2]
HOUR = 60  # minutes
DEFAULT = "4.1"  # the Spark of .venv, in which these tests run
STORE = "org.apache.spark.sql.execution.streaming.state.{}StateStoreProvider"
UP, DOWN = ("3.5", "4.0", "4.1", "4.2", "4.3"), ("4.3", "4.2", "4.1", "4.0", "3.5")

HEAD = """
spark.conf.set("spark.sql.streaming.stateStore.providerClass", sys.argv[2])
rows = read("in").withWatermark("t", "10 minutes")
timed = rows.selectExpr("t", "v", "unix_millis(t) AS ms").groupBy("v")
"""
SUMS = """
start("sums", windows(read("in")))
start("once", rows.dropDuplicates(["t", "k"]).select("v"))
spark.streams.awaitAnyTermination()
"""
# Each row comes out once: with its partner or, if it has none, when nobody can come any more.
JOIN = """
others = read("in").where("v % 10 = 0").selectExpr("t AS u", "v AS w").withWatermark("u", "10 minutes")
near = F.expr("v = w AND u BETWEEN t - INTERVAL 5 MINUTES AND t + INTERVAL 5 MINUTES")
start("once", rows.join(others, near, "left_outer").select("v")).awaitTermination()
"""
# Each row comes out once, ten minutes later by its own time: by a timer.
TIMEOUTS = """
import pandas as pd

def later(key, frames, state):
    if state.hasTimedOut:
        state.remove()
        yield pd.DataFrame({"v": [key[0]]})
    else:
        latest = max(int(ms) for frame in frames for ms in frame["ms"])
        state.update((latest,))
        state.setTimeoutTimestamp(latest + 600_000)

late = timed.applyInPandasWithState(later, "v long", "ms long", "append", "EventTimeTimeout")
start("once", late).awaitTermination()
"""
TIMERS = """
import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

class Later(StatefulProcessor):
    def init(self, handle):
        self.handle, self.latest = handle, handle.getValueState("latest", "ms long")

    def handleInputRows(self, key, rows, timerValues):
        latest = max(int(ms) for frame in rows for ms in frame["ms"])
        self.latest.update((latest,))
        self.handle.registerTimer(latest + 600_000)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        self.latest.clear()
        yield pd.DataFrame({"v": [key[0]]})

late = timed.transformWithStateInPandas(Later(), "v long", "append", "eventTime")
start("once", late).awaitTermination()
"""


def python_of(version: str) -> Path:
    name = ".venv" if version == DEFAULT else f".venv-spark{version.replace('.', '')}"
    return ROOT / name / "bin" / "python"


@pytest.mark.parametrize("store", ["RocksDB", pytest.param("HDFSBacked", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "versions",
    [
        pytest.param(("3.5", "4.3"), id="up"),
        pytest.param(("3.5", "4.1", "4.3"), marks=pytest.mark.slow, id="up twice"),
        pytest.param(("4.3", "4.1", "3.5"), marks=pytest.mark.slow, id="down"),
        pytest.param(UP, marks=pytest.mark.slow, id="each up"),
        pytest.param(DOWN, marks=pytest.mark.slow, id="each down"),
    ],
)
def test_a_job_is_stopped_and_resumed_with_other_versions(
    spark: SparkSession, tmp_path: Path, versions: tuple[str, ...], store: str
) -> None:
    """All of its input is in the output once. A step down is warned of, with both versions."""
    script = goes_on(spark, tmp_path, versions, store, SUMS, "sums", "once")
    assert script.values(spark, "sums") == script.windows(spark)


@pytest.mark.slow
@pytest.mark.parametrize("store", ["RocksDB", "HDFSBacked"])
@pytest.mark.parametrize("versions", [UP, DOWN], ids=["each up", "each down"])
@pytest.mark.parametrize("text", [JOIN, TIMEOUTS], ids=["join", "applyInPandasWithState"])
def test_so_is_one_with_a_join_or_with_timeouts(
    spark: SparkSession, tmp_path: Path, versions: tuple[str, ...], store: str, text: str
) -> None:
    goes_on(spark, tmp_path, versions, store, text, "once")


@pytest.mark.slow
@pytest.mark.parametrize("versions", [UP[1:], DOWN[:-1]], ids=["each up", "each down"])
def test_so_is_one_with_timers(spark: SparkSession, tmp_path: Path, versions: tuple[str, ...]) -> None:
    """Spark 3.5 has no transformWithState; the others have it in RocksDB only."""
    goes_on(spark, tmp_path, versions, "RocksDB", TIMERS, "once")


def goes_on(
    spark: SparkSession, home: Path, versions: tuple[str, ...], store: str, text: str, *queries: str
) -> Script:
    """Run a script with one version after the other, an hour of input with each. Drain it with the last one.

    Check that `once` has each row once, and that each step down is warned of, with both versions.
    """
    if line(spark.version) != DEFAULT:
        pytest.skip(f"it starts the other versions itself, from {DEFAULT}")
    if absent := [v for v in versions if not python_of(v).exists()]:
        pytest.skip(
            f"no environment with Spark {', '.join(absent)}: make venv-spark{absent[0].replace('.', '')}"
        )
    script, state = Script(home, HEAD + text), home / "state"
    arguments = (str(home), STORE.format(store))

    def runs(version: str, *options: str) -> Terminal:
        return Terminal(state, script.file, *options, arguments=arguments, python=str(python_of(version)))

    for number, version in enumerate(versions):
        script.feed.minutes(number * HOUR, (number + 1) * HOUR, 5)
        with runs(version) as driver:
            await_read(state, number, *queries)
            code, shown = driver.interrupt(signal.SIGTERM).ended()
        assert code == 0, shown
        before = versions[max(number - 1, 0)]
        warned = f"Spark {before}." in shown and "does not promise" in shown
        assert warned == (order(before) > order(version)), shown
    with runs(versions[-1], "--drain") as driver:
        code, shown = driver.ended()
    assert code == 0, shown
    assert script.values(spark, "once") == list(range(0, len(versions) * HOUR, 5))
    return script


def await_read(state: Path, number: int, *queries: str) -> None:
    """Wait until each query has planned a batch with the newest file."""
    name = f"{number:05}.json"

    def read(query: str) -> bool:
        logs = (state / "checkpoints" / query / "0" / "sources" / "0").glob("[0-9]*")
        return any(name in log.read_text() for log in logs)

    eventually(lambda: all(map(read, queries)), f"{name} is read", 300)
