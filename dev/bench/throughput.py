"""Rows per second with and without the runtime, in pairs, since the machine's speed drifts.

And Python's part of the job's processor time, which does not drift: there, and in the JVM's threads that answer it, the
runtime works; without it Python only waits.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.bench.endings import APP
from dev.bench.figures import Figures
from dev.localdriver import FAST, LocalDriver

ROWS, KEYS = 200_000, 1_000  # a micro-batch
WARM = 250  # batches that are not counted: the JVM compiles on for a minute
SECONDS = 30.0


def measure(pairs: int) -> Figures:
    figures = Figures()
    for pair in range(pairs):
        print(f"  throughput: pair {pair + 1} of {pairs}", flush=True)
        home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
        try:
            # Which goes first changes, so that neither has the warmer disk each time.
            order = [_bare, _managed] if pair % 2 == 0 else [_managed, _bare]
            found = {kind.__name__: _rate(kind, home) for kind in order}
        finally:
            shutil.rmtree(home, ignore_errors=True)
        (bare, idle), (managed, taken) = found["_bare"], found["_managed"]
        figures.add("rows/s, python app.py", bare)
        figures.add("rows/s, python -m streamjob.runtime app.py", managed)
        figures.add("ratio with / without", managed / bare)
        figures.add("Python's share of the processor time without, %", idle)
        figures.add("Python's share of the processor time with, %", taken)
    return figures


@contextmanager
def _managed(home: Path) -> Iterator[tuple[Path, int]]:
    """Its commit log, and its process."""
    with LocalDriver(home / "managed", APP, "rate", str(ROWS), str(KEYS)) as driver:
        yield home / "managed" / "checkpoints" / "main" / "0" / "commits", driver.process.pid


@contextmanager
def _bare(home: Path) -> Iterator[tuple[Path, int]]:
    home.mkdir(exist_ok=True)
    conf = home / "conf"
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in FAST.items()))
    command = [sys.executable, str(APP), "rate", str(ROWS), str(KEYS), str(home / "bare")]
    environment = {**os.environ, "SPARK_CONF_DIR": str(conf), "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield home / "bare" / "commits", process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _rate(kind, home: Path) -> tuple[float, float]:  # type: ignore[no-untyped-def]
    """Rows a second, and Python's share of the processor time in percent."""
    with kind(home) as (commits, pid):
        begin = _reach(commits, WARM)
        began, (all_before, python_before) = time.monotonic(), _processor(pid)
        time.sleep(SECONDS)
        rows = float((_latest(commits) - begin) * ROWS / (time.monotonic() - began))
        all_after, python_after = _processor(pid)
    return rows, 100 * (python_after - python_before) / (all_after - all_before)


def _processor(pid: int) -> tuple[int, int]:
    """Clock ticks so far of this Python process and its JVM: of both, and of Python with the threads that serve it (py4j's)."""
    python = _ticks(Path(f"/proc/{pid}"))
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    serving = 0
    for task in Path(f"/proc/{child}/task").iterdir():
        if (task / "comm").read_text().startswith("Thread-"):
            serving += _ticks(task)
    return python + _ticks(Path(f"/proc/{child}")), python + serving


def _ticks(process: Path) -> int:
    fields = (process / "stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])  # utime, stime


def _reach(commits: Path, batch: int) -> int:
    deadline = time.monotonic() + 600
    while _latest(commits) < batch:
        if time.monotonic() > deadline:
            raise TimeoutError(f"no {batch} batches in {commits}")
        time.sleep(0.02)
    return _latest(commits)


def _latest(commits: Path) -> int:
    return (
        max((int(f.name) for f in commits.iterdir() if f.name.isdigit()), default=-1)
        if commits.exists()
        else -1
    )
