"""Stops at random moments, of every trigger with every kind of sink: no batch is uncommitted, no row lost or
there twice.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from streamjob.runtime.spark.boundary import How, stop_at_boundary
from streamjob.runtime.spark.checkpoint_dir import NotAtBoundary
from streamjob.runtime.spark.internals import Internals
from streamjob.storage.hadoop import HadoopFiles

from .feeds import Feed, eventually, rows

pytestmark = pytest.mark.timeout(1200)
SEED = int(os.environ.get("STREAMJOB_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
STOPS = int(os.environ.get("STREAMJOB_STOPS", "2"))  # of each trigger with each sink
AT_ONCE = 4  # queries, so that they disturb each other
TRIGGERS: tuple[dict[str, object], ...] = (
    {"processingTime": "0 seconds"},
    {"processingTime": "400 milliseconds"},
    {"availableNow": True},
)
SINKS = ("parquet", "noop", "foreachBatch")


@dataclass
class Runner:
    """One query that is stopped and started again and again."""

    spark: SparkSession
    files: HadoopFiles
    internals: Internals
    feed: Feed
    home: Path
    sink: str
    trigger: dict[str, object]
    random: random.Random
    half_done: list[str] = field(default_factory=list)
    overheads: list[float] = field(default_factory=list)
    hows: Counter[How] = field(default_factory=Counter)
    delivered: list[tuple[int, int]] = field(default_factory=list)  # to foreachBatch: batch, rows

    def run(self) -> Runner:
        for _ in range(STOPS):
            query = self.start(self.trigger)
            if self.random.random() < 0.8:  # the others are stopped while they start
                eventually(lambda q=query: q.lastProgress or not q.isActive, "the first batch of this run")
                time.sleep(self.random.random() * 0.7)
            self.stop(query)
        return self

    def start(self, trigger: dict[str, object], files: int = 1) -> StreamingQuery:
        frame = self.feed.stream(self.spark, "v long", files)
        writer = frame.writeStream.option("checkpointLocation", str(self.home / "checkpoint"))
        writer = writer.trigger(**trigger)  # type: ignore[call-overload]
        if self.sink == "foreachBatch":
            return writer.foreachBatch(self.take).start()
        return writer.format(self.sink).option("path", str(self.home / "out")).start()

    def take(self, frame: DataFrame, batch: int) -> None:
        self.delivered.append((batch, frame.count()))

    def stop(self, query: StreamingQuery) -> None:
        asked = time.time()
        try:
            boundary = stop_at_boundary(query, self.files, self.internals)
        except NotAtBoundary as e:
            self.half_done.append(f"{self.sink}, {self.trigger}: {e.message}")
            return
        ended = time.time()
        self.hows[boundary.how] += 1
        if boundary.how is not How.ENDED and boundary.batch is not None:
            committed = (self.home / "checkpoint" / "commits" / str(boundary.batch)).stat().st_mtime
            self.overheads.append(ended - max(asked, committed))


def test_no_stop_leaves_a_batch_half_done(
    spark: SparkSession,
    files: HadoopFiles,
    internals: Internals,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    feed = Feed(tmp_path / "in")
    for i in range(400):
        feed.add([{"v": 2 * i}, {"v": 2 * i + 1}])
    runners = [
        Runner(
            spark,
            files,
            internals,
            feed,
            tmp_path / f"{sink}-{i}",
            sink,
            trigger,
            random.Random(f"{SEED} {sink} {i}"),
        )
        for sink in SINKS
        for i, trigger in enumerate(TRIGGERS)
    ]
    random.Random(SEED).shuffle(runners)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(r.run) for r in runners]:
            done.result()

    half_done = [h for r in runners for h in r.half_done]
    overheads = [o for r in runners for o in r.overheads]
    stops = sum(r.hows.total() for r in runners) + len(half_done)
    record_property(
        "figure",
        f"Spark {spark.version}, seed {SEED}: random stops: {stops}, uncommitted: {len(half_done)}, "
        f"overhead median {statistics.median(overheads):.3f} s, max {max(overheads):.3f} s; "
        + ", ".join(f"{n} {how.value}" for how, n in sum((r.hows for r in runners), Counter()).items()),
    )
    assert not half_done
    assert stops == STOPS * len(runners)
    for runner in runners:
        runner.start({"availableNow": True}, files=1000).awaitTermination()
        if runner.sink == "parquet":
            found = rows(spark.read.parquet(str(runner.home / "out")))
            assert found == sorted(((v,) for v in range(800)), key=repr), runner.trigger
        if runner.sink == "foreachBatch":
            batches = [batch for batch, _ in runner.delivered]
            assert batches == sorted(set(batches)), "a batch came twice"
            assert sum(n for _, n in runner.delivered) == 800
