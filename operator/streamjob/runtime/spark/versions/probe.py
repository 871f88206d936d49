"""Probes a version of Spark that is not in the table: does all that the runtime needs exist, and behave?

With throw-away queries in a temporary folder of the driver, in a session of their own. They call a function
that does not look at its rows, so no executor takes part.
"""

from __future__ import annotations

import inspect
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark import RDD
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  what everybody calls it
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ....jvm.errors import one_line
from ....protocol.errors import StreamJobError
from ....storage.hadoop import HadoopFiles
from ..boundary import How, Place, place_of, stop_at_boundary
from ..checkpoint_dir import MAX_WATERMARK_MS, CheckpointDir
from ..internals import FILE_MANAGER, Internals
from ..max_watermark.batch import plan as plan_max_watermark
from ..session_conf import Settings
from .table import BY_VERSION, Traits

log = logging.getLogger("streamjob")

SECONDS = 30.0  # for one step
ANY = 1 << 30  # a format of Spark's logs: what a probed version reads, Spark itself says


class Lacking(Exception):
    """What this Spark does not have, or does otherwise."""


def probe(spark: SparkSession) -> Traits:
    """Find out which entry of the table describes a Spark that is not in it.

    :returns: the newest entry with which every check passes.
    :raises Lacking: none does. Says what is missing with the newest entry.
    """
    first: Lacking | None = None
    for traits in dict.fromkeys(reversed(BY_VERSION.values())):
        try:
            _check(spark, traits)
        except Lacking as e:
            log.info("probe of Spark %s: %s", spark.version, e)
            first = first or e
        else:
            # A restart does what it has to or fails. These trust code that has not been read.
            return replace(
                traits, offset_log=ANY, commit_log=ANY, drains_in_place=False, snapshots_at_rest=False
            )
    assert first is not None
    raise first


def _check(spark: SparkSession, traits: Traits) -> None:
    """Run all checks.

    :raises Lacking: at the first one that fails.
    """
    with _step("the classes of a query's execution"):
        Internals(spark, traits)
    with (
        tempfile.TemporaryDirectory(prefix="streamjob-probe-", ignore_cleanup_errors=True) as folder,
        _own_session(spark) as session,
    ):
        trial = _Trial(session, traits, Path(folder))
        checks = {
            "a stop while a batch runs": trial.stop_in_batch,
            "a stop while there is no input": trial.stop_idle,
            "a stop between two triggers": trial.stop_between_triggers,
            "a batch with the max watermark": trial.run_max_watermark,
            "the comparison of a query's operators with its state": trial.compare_operators,
            "the settings of a session": trial.keep_settings,
        }
        for what, check in checks.items():
            with _step(what):
                check()


@contextmanager
def _step(what: str) -> Iterator[None]:
    try:
        yield
    except (Lacking, StreamJobError, PySparkException, Py4JError, TypeError, ValueError, KeyError) as e:
        raise Lacking(f"{what}: {e.message if isinstance(e, StreamJobError) else one_line(e)}") from e


@contextmanager
def _own_session(spark: SparkSession) -> Iterator[SparkSession]:
    """A session with the settings that the driver started with, not with those of the script."""
    to_frame = getattr(RDD, "toDF", None)
    session = spark.newSession()
    session.conf.unset(FILE_MANAGER)  # it may not work on a local disk
    session.conf.set("spark.sql.streaming.stopTimeout", f"{SECONDS:.0f}s")
    try:
        yield session
    finally:
        if to_frame is not None:
            setattr(RDD, "toDF", to_frame)  # noqa: B010  a new session claims it


class _Trial:
    """One query, which is stopped and started again."""

    def __init__(self, spark: SparkSession, traits: Traits, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._files = HadoopFiles(spark)
        self._internals = Internals(spark, traits)
        self._directory = CheckpointDir(self._files, f"file:{folder}/checkpoint")
        self._entered, self._released = threading.Event(), threading.Event()
        (folder / "in").mkdir()

    def stop_in_batch(self) -> None:
        """The batch must commit, although the stop comes while the sink has it."""
        self._add_input()
        self._stop(How.IN_BATCH, 0, lambda _: self._entered.wait(SECONDS), processingTime="0 seconds")

    def stop_idle(self) -> None:
        self._released.set()
        self._stop(How.BETWEEN, 0, self._rests_in(Place.SLEEPING), processingTime="0 seconds")

    def stop_between_triggers(self) -> None:
        self._add_input()
        self._stop(How.BETWEEN, 1, self._rests_in(Place.WAITING), processingTime="1 hour")

    def run_max_watermark(self) -> None:
        """Exactly the planned batch must run, with the watermark that was written for it."""
        batch = plan_max_watermark(self._directory, 1, MAX_WATERMARK_MS, self._internals)
        self._add_input()
        with self._running(once=True) as query:
            if not query.awaitTermination(int(SECONDS)):
                raise Lacking(f"trigger(once=True) did not end in {SECONDS:.0f} s")
            if (error := query.exception()) is not None:
                raise Lacking(one_line(error))
            progress: Any = query.lastProgress
        if (found := self._directory.boundary()) != batch:
            raise Lacking(f"the query ended with batch {found}, not with the planned batch {batch}")
        watermark = str(progress["eventTime"].get("watermark")) if progress is not None else "unknown"
        if not watermark.startswith("9999-12-31"):
            raise Lacking(f"the batch had the watermark {watermark}")

    def compare_operators(self) -> None:
        """The planned batch of another query must not fit the state of the first."""
        state, metadata = self._folder / "state", '{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}'
        counts = self._frame().groupBy(F.window("t", "1 minute")).count()
        unlike = self._frame().dropDuplicates(["t"]).groupBy(F.window("t", "1 minute")).count()

        def plan(frame: DataFrame, batch: int) -> frozenset[int] | None:
            analyzed = frame._jdf.queryExecution().analyzed()
            return self._internals.plan_batch(analyzed, "append", f"file:{state}", batch, metadata)

        before = plan(counts, 0)
        if before is None and not list(state.glob("*/_metadata")):
            raise Lacking("planning describes no operator")
        if plan(counts, 1) != before:
            raise Lacking("the same query has other operators")
        try:
            differs = plan(unlike, 1) != before
        except (PySparkException, Py4JError):
            differs = True
        if not differs:
            raise Lacking("another query passes for the same")

    def keep_settings(self) -> None:
        self._spark.conf.set("streamjob.probe", "then")
        then = Settings(self._spark)
        self._spark.conf.set("streamjob.probe", "now")
        with then.in_force():
            found = self._spark.conf.get("streamjob.probe")
        if (found, self._spark.conf.get("streamjob.probe")) != ("then", "now"):
            raise Lacking("they are not set back")

    def _stop(
        self, how: How, batch: int, ready: Callable[[StreamingQuery], object], **trigger: object
    ) -> None:
        with self._running(**trigger) as query:
            if not ready(query):
                frames = self._internals.execution(query).frames()
                raise Lacking(f"the query's thread did not get there, it is at {', '.join(frames[:12])}")
            found = stop_at_boundary(
                query,
                self._files,
                self._internals,
                deadline=time.monotonic() + SECONDS,
                on_wait=lambda _: self._released.set(),
            )
            if (found.how, found.batch) != (how, batch):
                raise Lacking(f"it stopped after batch {found.batch}, {found.how.value}")

    def _rests_in(self, place: Place) -> Callable[[StreamingQuery], bool]:
        """Whether the query gets to the place after its batches."""

        def rests(query: StreamingQuery) -> bool:
            execution, end = self._internals.execution(query), time.monotonic() + SECONDS
            while place_of(execution.frames()) is not place or not self._nothing_is_left():
                if time.monotonic() > end or not execution.alive():
                    return False
                time.sleep(0.01)
            return True

        return rests

    def _nothing_is_left(self) -> bool:
        committed = self._directory.latest_commit()
        return committed is not None and committed + 1 == len(list((self._folder / "in").iterdir()))

    def _take(self, frame: DataFrame, batch: int) -> None:
        self._entered.set()
        self._released.wait(SECONDS)

    def _add_input(self) -> None:
        folder = self._folder / "in"
        number = len(list(folder.iterdir()))
        (folder / f"{number}.json").write_text('{"t":"2026-01-01T00:00:00Z"}\n')

    def _frame(self) -> DataFrame:
        reader = self._spark.readStream.schema("t timestamp").option("maxFilesPerTrigger", "1")
        return reader.json(f"file:{self._folder}/in").withWatermark("t", "1 minute")

    @contextmanager
    def _running(self, **trigger: object) -> Iterator[StreamingQuery]:
        writer: Any = self._frame().writeStream
        # pyspark's own methods, not those that the runtime puts before them for the script.
        original = {name: inspect.unwrap(getattr(DataStreamWriter, name)) for name in _METHODS}
        original["foreachBatch"](writer, self._take)
        original["option"](writer, "checkpointLocation", self._directory.uri)
        original["trigger"](writer, **trigger)
        query: StreamingQuery = original["start"](writer)
        try:
            yield query
        finally:
            self._released.set()
            query.stop()


_METHODS = ("foreachBatch", "option", "trigger", "start")
