"""How long a start, a stop and a drain take with each Spark that has an environment here.

One run is a round through all versions, so that what else the machine does falls on each of them. The figures
of a version are also given as multiples of those of Spark 4.1 in the same round.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path

from dev.bench.endings import APP, ROCKSDB, rows_of
from dev.bench.figures import Figures
from dev.cluster.layout import REPOSITORY
from dev.images import sparks
from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_status import DriverPhase

KEYS = 1_000
START = "start: process start to running"
FIRST = "start: process start to the end of the first batch"
STOP, STOPPED = "stop: request to savepoint complete", "stop: request to end of the process"
DRAIN, DRAINED = "drain: request to savepoint complete", "drain: request to end of the process"


def environments() -> dict[str, Path]:
    """The Pythons by line of Spark, the default one first."""
    found = {sparks.DEFAULT: REPOSITORY / ".venv"} | {
        line: REPOSITORY / f".venv-{sparks.name(line)}" for line in sparks.OTHERS
    }
    pythons = {line: folder / "bin" / "python" for line, folder in found.items()}
    return {line: python for line, python in pythons.items() if python.exists()}


def measure(runs: int) -> dict[str, Figures]:
    """The figures by line of Spark. An environment that is missing is left out (`make venv-spark42`)."""
    pythons = environments()
    figures = {line: Figures() for line in pythons}
    home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
    try:
        rows = rows_of(home, KEYS)
        for run in range(runs):
            round_of = {}
            for line, python in pythons.items():
                print(f"  Spark {line}: run {run + 1} of {runs}", flush=True)
                round_of[line] = _life(home / f"{run}-{line}", rows, python)
            for line, seconds in round_of.items():
                for name, value in seconds.items():
                    figures[line].add(name, value)
                    if line != sparks.DEFAULT:
                        ratio = value / round_of[sparks.DEFAULT][name]
                        figures[line].add(f"{name}, Spark {sparks.DEFAULT} = 1", ratio)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return figures


def _life(home: Path, rows: Path, python: Path) -> dict[str, float]:
    """One job: start, read all keys, stop while idle; another one that is drained."""
    seconds: dict[str, float] = {}
    home.mkdir()
    for mode, complete, end in ((Mode.STOP, STOP, STOPPED), (Mode.DRAIN, DRAIN, DRAINED)):
        began = time.monotonic()
        folder = home / mode.value
        with LocalDriver(folder, APP, "files", str(rows), python=str(python), spark_conf=ROCKSDB) as driver:
            driver.wait_for(lambda s: s.phase is DriverPhase.RUNNING)
            seconds.setdefault(START, time.monotonic() - began)
            driver.running(0)
            seconds.setdefault(FIRST, time.monotonic() - began)
            driver.running(1)
            driver.answer()
            asked = time.monotonic()
            driver.terminate(mode)
            driver.wait_for(lambda s: s.completed is not None)
            seconds[complete] = time.monotonic() - asked
            driver.wait()
            seconds[end] = time.monotonic() - asked
    return seconds
