"""How long a stop, a drain and a resume take, by number of keys.

The real runtime, with us as its controller.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dev.bench.figures import Figures
from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, TerminationStep

APP = Path(__file__).with_name("app.py")
STATE = "org.apache.spark.sql.execution.streaming.state"
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": f"{STATE}.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.driver.memory": "4g",
}
# Flink 2.3.0 on a comparable machine, 2 cores, standalone with a warm JVM: hashmap for 1,000 keys, RocksDB
# for 1,000,000 (min/median/max in seconds; canonical savepoints, because ours are full copies).
FLINK = {
    1_000: {
        "stop: request to savepoint complete": "0.011/0.025/0.046",
        "stop: request to end of the process": "0.030/0.047/0.093 (job FINISHED)",
        "drain: request to savepoint complete": "0.031/0.040/0.147",
        "drain: request to end of the process": "0.053/0.066/0.202 (job FINISHED)",
        "resume: query start to running": "0.156/0.292/0.411",
    },
    1_000_000: {
        "stop: request to end of the process": "0.603/0.759/1.596 (job FINISHED)",
        "drain: request to end of the process": "5.0/5.4/8.8 (job FINISHED)",
        "resume: query start to running": "7.8/13.7/15.0",
    },
}


def measure(keys: int, runs: int) -> Figures:
    """Run the life of a job `runs` times: start, read all keys, stop while idle, resume, drain. A second job
    is drained in its first epoch.
    """
    figures = Figures()
    home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
    try:
        rows = rows_of(home, keys)
        for run in range(runs):
            print(f"  {keys:,} keys: run {run + 1} of {runs}", flush=True)
            _life(home / str(run), rows, figures)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return figures


def rows_of(home: Path, keys: int) -> Path:
    """Write two files, each with every key once."""
    code = (
        "import sys\nfrom pyspark.sql import SparkSession\n"
        "s = SparkSession.builder.master('local[2]').getOrCreate()\n"
        "for i in range(2): s.range(int(sys.argv[2])).selectExpr('id as k', 'id as v', "
        "\"timestamp'2026-01-01 00:00:00' as t\").coalesce(1).write.mode('append').parquet(sys.argv[1])\n"
    )
    folder = home / "rows"
    subprocess.run([sys.executable, "-c", code, str(folder), str(keys)], check=True, capture_output=True)
    return folder


def _life(home: Path, rows: Path, figures: Figures) -> None:
    home.mkdir()
    with LocalDriver(home, APP, "files", str(rows), spark_conf=ROCKSDB) as first:
        first.running(1)
        _end(first, Mode.STOP, figures)
    began = time.monotonic()
    with first.next_epoch(APP, "files", str(rows), spark_conf=ROCKSDB) as second:
        second.wait_for(lambda s: s.phase is DriverPhase.RUNNING)
        figures.add("resume: process start to running (a JVM's start included)", time.monotonic() - began)
        figures.add("resume: query start to running", _query_start(second.log.read_text(errors="replace")))
        _end(second, Mode.DRAIN, figures, "drain (the first batch of its JVM)")
    with LocalDriver(home / "warm", APP, "files", str(rows), spark_conf=ROCKSDB) as warm:
        warm.running(1)
        _end(warm, Mode.DRAIN, figures)


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
