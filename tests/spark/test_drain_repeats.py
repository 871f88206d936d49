"""Timers that set timers while they fire, and chains of stateful operators: a drain continues until nothing
is left, or says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from streamjob.runtime.spark import checkpoint_dir
from streamjob.runtime.spark.boundary import QueryFailed
from streamjob.runtime.spark.checkpoint_dir import MAX_WATERMARK_MS, MAX_WATERMARKS
from streamjob.runtime.spark.internals import Internals
from streamjob.runtime.spark.max_watermark import batch as max_watermark
from streamjob.runtime.spark.max_watermark.batch import DrainResult, endless, fire_timers, write_max_watermark
from streamjob.runtime.spark.max_watermark.undrain import reopen
from streamjob.storage.hadoop import HadoopFiles
from tests import gate

from .apps.states import Source
from .feeds import at, rows
from .test_drain import Job

STORES = "org.apache.spark.sql.execution.streaming.state.{}StateStoreProvider"
ALL, ROCKSDB = (pytest.param("HDFSBacked", marks=pytest.mark.slow), "RocksDB"), ("RocksDB",)
MINUTE = 60_000
START = 1_767_225_600_000  # 2026-01-01
LINK, LAST = 25 * MINUTE, START + 120 * MINUTE
TIMES = 3


@pytest.fixture(params=ALL)
def store(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", STORES.format(request.param))
    yield request.param
    spark.conf.unset("spark.sql.streaming.stateStore.providerClass")


def in_rocksdb(test: Any) -> Any:
    """Spark has `transformWithState` nowhere else."""
    return pytest.mark.parametrize("store", ROCKSDB, indirect=True)(test)


def timers(last: int, column: str = "") -> Callable[[Source], DataFrame]:
    """A row's timer goes off ten minutes after it, tells its time and sets the next one, up to the first
    after `last`.
    """

    class Chain(StatefulProcessor):  # in a function: the worker can't import this module
        def init(self, handle: StatefulProcessorHandle) -> None:
            self._handle = handle

        def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
            for frame in rows:
                for t in frame["t"]:
                    self._handle.registerTimer(int(t.timestamp() * 1000) + 10 * MINUTE)
            return iter(())

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Any]:
            import pandas as pd

            now = expiredTimerInfo.getExpiryTimeInMs()
            if now <= last:
                self._handle.registerTimer(now + LINK)
            yield pd.DataFrame({"k": [key[0]], "at": [pd.Timestamp(now, unit="ms", tz="UTC")]})

    def query(source: Source) -> DataFrame:
        keyed = source("a").withWatermark("t", "10 minutes").groupBy("k")
        return keyed.transformWithStateInPandas(
            Chain(), "k string, at timestamp", "append", "eventTime", eventTimeColumnName=column
        )

    return query


def rung(last: int = LAST) -> list[tuple[str, int]]:
    """What `timers` gives for the minutes of an hour, each its own chain: key and time, milliseconds."""
    found = []
    for minute in range(60):
        now = START + (minute + 10) * MINUTE
        found.append((f"k{minute % 3}", now))
        while now <= last:
            now += LINK
            found.append((f"k{minute % 3}", now))
    return sorted(found)


def timeouts(times: int) -> Callable[[Source], DataFrame]:
    """A key counts how often it has timed out, `times` times more after the first."""

    def count(key: Any, frames: Iterable[Any], state: GroupState) -> Iterable[Any]:
        import pandas as pd

        if not state.hasTimedOut:
            list(frames)
            state.update((0,))
            state.setTimeoutTimestamp(max(state.getCurrentWatermarkMs(), START) + 120 * MINUTE)
            return
        (n,) = state.get
        if n < times:
            state.update((n + 1,))
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 10 * MINUTE)
        else:
            state.remove()
        yield pd.DataFrame({"k": [key[0]], "n": [n]})

    def query(source: Source) -> DataFrame:
        keyed = source("a").withWatermark("t", "10 minutes").groupBy("k")
        return keyed.applyInPandasWithState(
            count, "k string, n long", "n long", "append", GroupStateTimeout.EventTimeTimeout
        )

    return query


def counted(times: int) -> list[tuple[str, int]]:
    return sorted((f"k{k}", n) for k in range(3) for n in range(times + 1))


T = TypeVar("T")


def patiently(run: Callable[[], T]) -> T:
    """Once more, as after a crash, if Spark has not waited long enough: it gives the Python process of a
    query with timers ten seconds to come up.
    """
    while True:
        try:
            return run()
        except (StreamingQueryException, QueryFailed) as e:
            if "Python worker failed to connect back" not in str(e):
                raise


def times_of(job: Job) -> list[tuple[str, int]]:
    output: list[Any] = job.output()
    return sorted((k, int(now.timestamp() * 1000)) for k, now in output)


@in_rocksdb
@pytest.mark.slow
def test_r7_timers_that_set_timers(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path, store: str
) -> None:
    job = Job(spark, files, tmp_path, timers(LAST))
    patiently(job.run)
    assert len(times_of(job)) < len(rung())
    drained = patiently(lambda: job.drain(internals))
    assert drained is not None
    assert (drained.state_rows_left, drained.timers_left) == (0, False)
    assert drained.batches > 3
    assert times_of(job) == rung()
    assert job.directory.is_drained()
    again = patiently(lambda: job.drain(internals))
    assert again is not None
    assert again.batches == drained.batches + 1, "as after a crash: what the last batch left is not known"
    assert not again.timers_left
    assert times_of(job) == rung()


def test_r7_timeouts_set_again(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    store: str,
) -> None:
    job = Job(spark, files, tmp_path, timeouts(TIMES))
    job.run()
    assert job.output() == []
    boundary = job.directory.boundary()
    assert boundary is not None
    drained = job.drain(internals)
    assert drained is not None
    assert (drained.batches, drained.state_rows_left, drained.timers_left) == (TIMES + 1, 0, False)
    assert drained.batch == boundary + drained.batches
    assert job.output() == counted(TIMES)
    watermarks = [job.directory.watermark(n) for n in range(boundary, drained.batch + 1)]
    assert watermarks == [watermarks[0]] * drained.batches + [MAX_WATERMARKS[TIMES]]


def window_window(source: Source) -> DataFrame:
    inner = source("a").withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes"), "k").count()
    return inner.groupBy(F.window(F.window_time("window"), "30 minutes")).agg(F.sum("count"), F.count("*"))


def join_window(source: Source) -> DataFrame:
    a = source("a").withWatermark("t", "10 minutes").alias("a")
    b = source("b").withWatermark("t", "10 minutes").alias("b")
    near = "a.k = b.k AND b.t BETWEEN a.t - INTERVAL 5 MINUTES AND a.t + INTERVAL 5 MINUTES"
    joined = a.join(b, F.expr(near), "left_outer").select("a.t", "b.v")
    return joined.groupBy(F.window("t", "15 minutes")).agg(F.count("*"), F.count("v"))


def unique_window(source: Source) -> DataFrame:
    events = source("a")
    if events.isStreaming:
        unique = events.withWatermark("t", "10 minutes").dropDuplicatesWithinWatermark(["k", "v"])
    else:
        unique = events.dropDuplicates(["k", "v"])
    return unique.groupBy(F.window("t", "15 minutes"), "k").agg(F.count("*"), F.sum("v"))


@pytest.mark.parametrize("query", gate.slow_but([join_window], [window_window, join_window, unique_window]))
def test_r7_one_batch_is_enough_for_a_chain_without_timers(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    store: str,
    query: Callable[[Source], DataFrame],
) -> None:
    job = Job(spark, files, tmp_path, query)
    job.inputs["a"].add({"t": at(m), "k": f"k{m % 3}", "v": m} for m in range(55, 60))  # once more
    job.run()
    drained = job.drain(internals)
    assert drained is not None
    assert (drained.batches, drained.state_rows_left) == (1, 0)
    assert job.output() == job.expected()


@pytest.mark.slow
@in_rocksdb
def test_r7_timers_before_a_window(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path, store: str
) -> None:
    """Nothing is late or refused, however many batches on.

    A window that has fired takes them in another row.
    """

    def query(source: Source) -> DataFrame:
        return timers(LAST, "at")(source).groupBy(F.window("at", "15 minutes"), "k").count()

    job = Job(spark, files, tmp_path, query)
    patiently(job.run)
    drained = patiently(lambda: job.drain(internals))
    assert drained is not None
    assert (drained.state_rows_left, drained.timers_left) == (0, False)
    assert drained.batches > 3
    schema = (
        "window struct<start timestamp>, k string, count long"  # as a batch Spark does not take the query
    )
    found: dict[tuple[int, str], int] = {}
    for window, k, n in rows(spark.read.schema(schema).json(str(tmp_path / "out"))):
        place = int(window.start.timestamp() * 1000), k
        found[place] = found.get(place, 0) + n
    expected: dict[tuple[int, str], int] = {}
    for k, now in rung():
        place = now - now % (15 * MINUTE), k
        expected[place] = expected.get(place, 0) + 1
    assert found == expected


@pytest.mark.slow
@in_rocksdb
def test_r7_an_endless_chain_ends_and_says_so(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    store: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(MAX_WATERMARKS) == 100
    assert MAX_WATERMARKS[0] == MAX_WATERMARK_MS
    for module in (checkpoint_dir, max_watermark):
        monkeypatch.setattr(module, "MAX_WATERMARKS", MAX_WATERMARKS[:3])
    job = Job(spark, files, tmp_path, timers(MAX_WATERMARK_MS))
    patiently(job.run)
    drained = patiently(lambda: job.drain(internals))
    assert drained is not None
    assert (drained.batches, drained.timers_left) == (3, True)
    assert drained.state_rows_left == 60, "one timer for each minute of the input"
    problem = endless("main", drained)
    assert problem.reason == "TimersLeft"
    assert "stage main: in 3 batches" in problem.message
    assert len(times_of(job)) >= 120
    again = patiently(lambda: job.drain(internals))
    assert again == DrainResult(drained.batch, 3, None, 0.0, None, timers_left=True)


class Killed(BaseException):
    """The driver is gone, whatever it was about to do."""


class Fate:
    """Kills before the first step, then before the second, and so on: each attempt gets one step farther than
    the one before.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.deaths = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.deaths:
            self.deaths += 1
            raise Killed

    def attempt(self) -> None:
        self.steps = 0


def test_r7_killed_before_each_step(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every write, removal and run of a batch is, once, what a driver did not come to."""
    job = Job(spark, files, tmp_path, timeouts(TIMES))
    job.run()
    fate, write, delete = Fate(), max_watermark._write, HadoopFiles.delete

    def mortal_write(*arguments: Any) -> None:
        fate.step()
        write(*arguments)

    def mortal_delete(self: HadoopFiles, uri: str) -> None:
        fate.step()
        delete(self, uri)

    def mortal_run(*settings: tuple[str, str]) -> StreamingQuery:
        fate.step()
        query = job.once(*settings)
        query.awaitTermination()
        fate.step()
        return query

    monkeypatch.setattr(max_watermark, "_write", mortal_write)
    monkeypatch.setattr(HadoopFiles, "delete", mortal_delete)
    drained = None
    while drained is None:
        fate.attempt()
        try:
            drained = fire_timers(mortal_run, job.directory, internals)
        except Killed:
            assert fate.deaths < 50
    assert fate.deaths >= 4
    assert not drained.timers_left
    assert job.output() == counted(TIMES)


@pytest.mark.slow
@pytest.mark.parametrize("cleaned", [False, True])
def test_r7_all_of_a_drain_is_taken_back(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path, cleaned: bool
) -> None:
    """For `allowDrained`; Spark may have removed the entries from before a long drain."""
    job = Job(spark, files, tmp_path, timeouts(1))
    job.run()
    boundary = job.directory.boundary()
    assert boundary is not None
    drained = job.drain(internals)
    assert drained is not None
    assert drained.batches == 2
    if cleaned:
        for log in ("offsets", "commits"):
            files.delete(f"{job.directory.uri}/{log}/{boundary}")
    reopen(job.directory)
    assert not job.directory.is_drained()
    watermark = START + 49 * MINUTE
    assert job.directory.watermark(drained.batch) == watermark
    for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"):
        assert str(MAX_WATERMARK_MS)[:4] not in path.read_text()
    job.inputs["a"].minutes(60, 70)
    job.run()
    assert job.drain(internals) is not None
    assert job.output() == sorted([*counted(1), *counted(1)]), "what came after the drain was dropped as late"


def test_r7_state_without_timers_is_told(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    job = Job(spark, files, tmp_path, lambda source: source("a").dropDuplicates(["k"]))
    job.run()
    drained = job.drain(internals)
    assert drained is not None
    assert (drained.batches, drained.state_rows_left, drained.timers_left) == (1, 3, False)
    assert len(rows(spark.read.json(str(tmp_path / "out")))) == 3


@in_rocksdb
def test_r7_rows_that_spark_does_not_count_are_not_told(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path, store: str
) -> None:
    spark.conf.set(max_watermark.TRACKING, "false")
    try:
        job = Job(spark, files, tmp_path, lambda source: source("a").dropDuplicates(["k"]))
        job.run()
        drained = job.drain(internals)
    finally:
        spark.conf.unset(max_watermark.TRACKING)
    assert drained is not None
    assert (drained.batches, drained.state_rows_left) == (1, None)


def test_r7_a_drain_long_after_the_query_has_ended(
    spark: SparkSession, files: HadoopFiles, internals: Internals, tmp_path: Path
) -> None:
    """Its query object is gone; the planned batches are all that a drain needs."""
    job = Job(spark, files, tmp_path, timeouts(0))
    job.run()
    batch = write_max_watermark(job.directory, internals)
    assert write_max_watermark(job.directory, internals) == batch
    drained = job.drain(internals)
    assert drained is not None
    assert (drained.batch, drained.batches) == (batch, 1)
    assert job.output() == counted(0)
