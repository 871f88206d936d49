"""Rows per second with and without the runtime, in pairs, since the machine's speed drifts."""

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
WARM = 15  # batches that are not counted
SECONDS = 20.0


def measure(pairs: int) -> Figures:
    figures = Figures()
    for pair in range(pairs):
        print(f"  throughput: pair {pair + 1} of {pairs}", flush=True)
        home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
        try:
            # Which goes first changes, so that neither has the warmer disk each time.
            order = [_bare, _managed] if pair % 2 == 0 else [_managed, _bare]
            rates = {kind.__name__: _rate(kind, home) for kind in order}
        finally:
            shutil.rmtree(home, ignore_errors=True)
        figures.add("rows/s, python app.py", rates["_bare"])
        figures.add("rows/s, python -m streamjob.runtime app.py", rates["_managed"])
        figures.add("ratio with / without", rates["_managed"] / rates["_bare"])
    return figures


@contextmanager
def _managed(home: Path) -> Iterator[Path]:
    with LocalDriver(home / "managed", APP, "rate", str(ROWS), str(KEYS)):
        yield home / "managed" / "checkpoints" / "main" / "0" / "commits"


@contextmanager
def _bare(home: Path) -> Iterator[Path]:
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
        yield home / "bare" / "commits"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _rate(kind, home: Path) -> float:  # type: ignore[no-untyped-def]
    with kind(home) as commits:
        begin = _reach(commits, WARM)
        began = time.monotonic()
        time.sleep(SECONDS)
        return float((_latest(commits) - begin) * ROWS / (time.monotonic() - began))


def _reach(commits: Path, batch: int) -> int:
    deadline = time.monotonic() + 300
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
