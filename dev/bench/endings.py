"""How long a stop, a drain and a resume take, by number of keys.

The real runtime, with us as its controller. Flink lives the same life in turn with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dev.bench.figures import Comparison, Figures
from dev.bench.flink import comparison
from dev.bench.flink.library import NoFlink
from dev.bench.flink.life import FEW, Flink, warm
from dev.demo.waiting import PATIENCE, until
from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, TerminationStep
from streamjob.runtime.spark.max_watermark.batch import TRACKING

APP = Path(__file__).with_name("app.py")
STATE = "org.apache.spark.sql.execution.streaming.state"
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": f"{STATE}.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.driver.memory": "4g",
}
UNCOUNTED = {**ROCKSDB, TRACKING: "false"}
LATER = "later"  # folder beside the rows: a file that waits for a resumed job
WARM = 20  # batches after which the JVM has compiled what they run


def measure(keys: int, runs: int) -> tuple[Figures, Comparison]:
    """Run the life of a job `runs` times: start, read all keys, stop while idle, resume, drain. Flink's job
    lives after each of ours, on a cluster that is idle while ours runs. Where Flink cannot be had, its
    recorded figures are beside ours.
    """
    figures, of_flink = Figures(), Figures()
    home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
    try:
        rows = rows_of(home, keys)
        with _flink(home / "flink") as flink:
            for run in range(runs):
                print(f"  {keys:,} keys: run {run + 1} of {runs}", flush=True)
                _life(home / str(run), keys, rows, figures)
                if flink:
                    print(f"  {keys:,} keys: run {run + 1} of {runs}, Flink", flush=True)
                    flink.life(home / f"{run}-flink", keys, of_flink)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return figures, comparison.measured(figures, of_flink) if flink else comparison.recorded(keys)


@contextmanager
def _flink(home: Path) -> Iterator[Flink | None]:
    with ExitStack() as stack:
        flink = None
        try:
            flink = stack.enter_context(warm(home))
        except NoFlink as reason:
            print(f"  Flink is not to be had here, its recorded figures are used: {reason}", flush=True)
        yield flink


def rows_of(home: Path, keys: int) -> Path:
    """Write two files, each with every key once. A third one with few of them is in the folder `LATER`."""
    code = (
        "import sys\nfrom pyspark.sql import SparkSession\n"
        "s = SparkSession.builder.master('local[2]').getOrCreate()\n"
        "def write(keys, folder): s.range(keys).selectExpr('id as k', 'id as v', "
        "\"timestamp'2026-01-01 00:00:00' as t\").coalesce(1).write.mode('append').parquet(folder)\n"
        "for i in range(2): write(int(sys.argv[2]), sys.argv[1])\n"
        "write(min(int(sys.argv[2]), int(sys.argv[4])), sys.argv[3])\n"
    )
    folder = home / "rows"
    words = [str(folder), str(keys), str(home / LATER), str(FEW)]
    subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
    return folder


def _life(home: Path, keys: int, rows: Path, figures: Figures) -> None:
    home.mkdir()
    own = home / "rows"
    shutil.copytree(rows, own, copy_function=os.link)
    with LocalDriver(home, APP, "files", str(own), spark_conf=ROCKSDB) as first:
        first.running(1)
        _end(first, Mode.STOP, figures)
    (later,) = (rows.parent / LATER).glob("*.parquet")
    os.link(later, own / later.name)
    with _resume(first, own, figures) as second:
        second.finish(Mode.STOP)
    with second.next_epoch(APP, "files", str(own), spark_conf=ROCKSDB) as cold:
        _end(cold, Mode.DRAIN, figures, "drain (the first batch of its JVM)")
    ends = [("drain", Mode.DRAIN, ROCKSDB, rows), ("drain, rows not counted", Mode.DRAIN, UNCOUNTED, rows)]
    if keys <= FEW:
        often = _often(rows, home / "often")
        ends += [
            (f"{m.value.lower()}, after {WARM} batches", m, ROCKSDB, often) for m in (Mode.STOP, Mode.DRAIN)
        ]
    for name, mode, settings, folder in ends:
        with LocalDriver(home / name, APP, "files", str(folder), spark_conf=settings) as warm_driver:
            warm_driver.running(len(list(folder.glob("*.parquet"))) - 1)
            _end(warm_driver, mode, figures, name)


def _often(rows: Path, folder: Path) -> Path:
    """The same rows in many files: a query reads each in a batch of its own."""
    folder.mkdir()
    file = next(rows.glob("*.parquet"))
    for number in range(WARM):
        os.link(file, folder / f"{number}.parquet")
    return folder


@contextmanager
def _resume(stopped: LocalDriver, rows: Path, figures: Figures) -> Iterator[LocalDriver]:
    """Resume a job for which rows wait. Only its first commit shows that its state is loaded."""
    began = time.monotonic()
    with stopped.next_epoch(APP, "files", str(rows), spark_conf=ROCKSDB) as driver:
        driver.wait_for(lambda s: s.phase is DriverPhase.RUNNING)
        running = time.monotonic() - began
        # From the commit log: the driver tells its figures with its next answer, up to a second later.
        until(lambda: driver.boundary()[1] >= 2, "its first commit", PATIENCE, every=0.01)
        committed = time.monotonic() - began
        started = _query_start(driver.log.read_text(errors="replace"))
        figures.add("resume: process start to running (a JVM's start included)", running)
        figures.add("resume: process start to first commit", committed)
        figures.add("resume: query start to running", started)
        figures.add("resume: query start to first commit", committed - running + started)
        yield driver


def _end(driver: LocalDriver, mode: Mode, figures: Figures, name: str = "") -> None:
    """End an idle query and measure each step. The checkpoint is confirmed at once, without an index."""
    name = name or mode.value.lower()
    driver.wait_for(lambda s: s.phase is DriverPhase.RUNNING)
    began = time.monotonic()
    driver.terminate(mode)

    def past(*steps: TerminationStep) -> DriverStatus:
        return driver.wait_for(lambda s: s.termination is not None and s.termination.step not in steps)

    if mode is Mode.DRAIN:
        past(TerminationStep.BOUNDARY)
        figures.add(f"{name}: request to boundary", time.monotonic() - began)
        past(TerminationStep.BOUNDARY, TerminationStep.MAX_WATERMARK)
        figures.add(f"{name}: request to every window out", time.monotonic() - began)
    else:
        past(TerminationStep.BOUNDARY)
        figures.add(f"{name}: request to boundary (idle, so all of it is overhead)", time.monotonic() - began)
    status = driver.wait_for(lambda s: s.completed is not None)
    figures.add(f"{name}: request to savepoint complete", time.monotonic() - began)
    assert status.completed is not None
    driver.record = status.completed
    driver.complete(status.completed.checkpoint)
    driver.wait()
    figures.add(f"{name}: request to end of the process", time.monotonic() - began)


def _query_start(log: str) -> float:
    """Seconds until the query's thread runs, from the driver's log.

    Includes the check of the initial state.
    """
    found = re.search(r"stage main started in ([0-9.]+) s", log)
    assert found, log[-2000:]
    return float(found[1])
