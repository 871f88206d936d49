"""Every kind of state, in every store, continues from a savepoint as the job that it was taken of does: that
is stopped, restored twice in one driver and in two, fed and drained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dev.localdriver import LocalDriver
from streamjob.protocol.formats.manifest import stage_root
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Restore
from streamjob.runtime.savepoints.catalog import export
from streamjob.storage.hadoop import HadoopFiles

from .apps.states import JOBS, SCHEMA, Source, deduplicated, queries, timers, window
from .feeds import Feed, at

APP = Path(__file__).parent / "apps" / "states.py"
COPIES = ("first ", "second ")
SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",  # half as many batches
}
LATE = {"t": at(0), "k": "k0", "v": -1}

Output = dict[str, Counter[str]]  # query → its rows as JSON


def rows(minutes: Iterable[int]) -> list[dict[str, Any]]:
    """Two keys each minute: a session lasts until a minute is left out."""
    return [{"t": at(m), "k": f"k{i}", "v": 2 * m + i} for m in minutes for i in range(2)]


class Job:
    """Where it lies; its input of four files, two before the savepoint, each of which a batch reads."""

    def __init__(self, kind: str, home: Path) -> None:
        self.kind, self.home = kind, home
        self.names = [name for name, *_ in queries(kind)]
        version = {"spark.sql.streaming.stateStore.checkpointFormatVersion": kind[-1]}
        self.config: dict[str, Any] = {"spark_conf": {**SETTINGS, **version}}
        self.source = home / "in"
        self.a, self.b = Feed(self.source / "a"), Feed(self.source / "b")
        self.files = 0

    def add(self, minutes: Iterable[int], *others: dict[str, Any]) -> None:
        """The second input has one key only, every six minutes: the other key's rows find no partner."""
        minutes = list(minutes)
        self.a.add([*others, *rows(minutes)])
        self.b.add([r for r in rows(m for m in minutes if m % 6 == 0) if r["k"] == "k0"])
        self.files += 1

    def arguments(self, name: str, *copies: str) -> tuple[str, ...]:
        return (self.kind, str(self.source), str(self.home / "out" / name), *copies)

    def output(self, name: str, copy: str = "") -> Output:
        folders = {n: self.home / "out" / name / f"{copy}{n}" for n in self.names}
        return {n: Counter(lines(f)) for n, f in folders.items()}

    def read_all(self, driver: LocalDriver, *copies: str) -> None:
        """Wait until each query has read each file."""
        directories = [
            driver.home / "checkpoints" / f"{c}{n}" / "0" for c in copies or ("",) for n in self.names
        ]
        driver.wait_for(lambda _: all(set(files_read(d)) == {self.files} for d in directories), 300)

    def expected(self, spark: SparkSession) -> Output:
        """By batch queries.

        Of what a batch has no equal: the rows without repetitions, and the windows that the timers make.
        """

        def table(name: str) -> DataFrame:
            return spark.read.schema(SCHEMA).json(str(self.source / name)).where(f"v <> {LATE['v']}")

        return {
            name: Counter(as_batch(query, table).toJSON().collect()) for name, _, query in queries(self.kind)
        }


def as_batch(query: object, table: Source) -> DataFrame:
    if query is deduplicated:
        return table("a").distinct()
    if query is timers:
        return window(table).selectExpr("unix_seconds(window.end) AS until", "k", "s")
    return query(table)  # type: ignore[operator]


def lines(folder: Path) -> list[str]:
    return [line for part in folder.glob("part-*.json") for line in part.read_text().splitlines()]


def files_read(checkpoint: Path) -> list[int]:
    """How many each source has, from its own log: a line each, after that of the version."""
    logs = checkpoint.glob("sources/*")
    return [sum(len(f.read_text().splitlines()) - 1 for f in log.glob("[0-9]*")) for log in logs]


@pytest.mark.parametrize("kind", JOBS)
@pytest.mark.timeout(1200)
@pytest.mark.impatient
@pytest.mark.slow
def test_row13_two_restores_in_one_driver_and_two_in_two_go_on_as_the_original(
    spark: SparkSession, files: HadoopFiles, tmp_path: Path, kind: str
) -> None:
    """transformWithState is in RocksDB only, without changelog and, in format 2, with it: Spark has it in no
    other store.
    """
    job = Job(kind, tmp_path)
    job.add(range(18))
    job.add(range(22, 38))
    with LocalDriver(tmp_path, APP, *job.arguments("original"), **job.config) as driver:
        job.read_all(driver)
        stopped = driver.finish(Mode.STOP)
    before = job.output("original")
    assert stopped.savepoint is not None

    # Rows that the windows and sessions which are open still wait for, some for the second time, and one that
    # is late by far.
    job.add(range(38, 46), LATE, *rows(range(34, 38)))
    job.add(range(52, 60))
    with driver.next_epoch(APP, *job.arguments("original"), **job.config) as original:
        job.read_all(original)
        assert original.finish(Mode.DRAIN).drained
    after = {name: rows - before[name] for name, rows in job.output("original").items()}
    assert all(after.values())

    for name in ("one", "two"):
        restore = Restore(savepoint=stopped.savepoint)
        with LocalDriver(tmp_path / name, APP, *job.arguments(name), restore=restore, **job.config) as alone:
            job.read_all(alone)
            alone.finish(Mode.DRAIN)
        assert job.output(name) == after

    exported = (tmp_path / "export").as_uri()
    export(files, stopped.savepoint, exported)
    of_copies = {f"{c}{n}": f"{exported}/{stage_root(n, 0)}" for c in COPIES for n in job.names}
    restore = Restore(checkpoints=of_copies)
    with LocalDriver(
        tmp_path / "both", APP, *job.arguments("both", *COPIES), restore=restore, **job.config
    ) as both:
        job.read_all(both, *COPIES)
        both.finish(Mode.DRAIN)
    for copy in COPIES:
        assert job.output("both", copy) == after

    assert job.output("original") == job.expected(spark)
