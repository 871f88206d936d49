"""The pause of a hand-over in local mode: from the last commit of the old process to the new one's first.

The job is started as a user starts it. Its batches follow one another, so the pause contains a batch.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import streamjob
from dev.bench.endings import APP, ROCKSDB
from dev.bench.figures import Figures
from dev.demo.waiting import PATIENCE, until
from streamjob.protocol.formats import index as indices

ROWS = 1_000  # in a batch
LOOK = 0.02  # seconds
STEADY = 12  # batches of the old process before another one is started


def measure(keys: int, runs: int) -> Figures:
    """Hand the job over `runs` times, each time to a process of its own."""
    figures = Figures()
    home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
    try:
        (home / "conf").mkdir()
        lines = [f"{key} {value}" for key, value in {**ROCKSDB, "spark.ui.enabled": "false"}.items()]
        (home / "conf" / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
        if keys > ROWS:
            with _process(home, keys, keys) as filling:
                _await_batch(home, 1, filling)
        for run in range(runs):
            print(f"  {keys:,} keys: hand-over {run + 1} of {runs}", flush=True)
            _hand_over(home, keys, figures)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return figures


def _hand_over(home: Path, keys: int, figures: Figures) -> None:
    with _process(home, ROWS, keys) as old:
        _await_batch(home, max(_commits(home), default=-1) + STEADY, old)
        steady = _commits(home)
        began = time.time()
        with _process(home, ROWS, keys, "--handover") as new:
            _await(lambda: old.poll() is not None, new)
            at_end = _commits(home)
            last = _boundary(home)
            _await_batch(home, last + 3, new)
            found = _commits(home)
    figures.add("a batch before", (steady[max(steady)] - steady[max(steady) - 8]) / 8)
    beside = [at for at in sorted(at_end.values()) if at > began]
    figures.add("a batch while the new process starts", (beside[-1] - beside[0]) / (len(beside) - 1))
    figures.add("new process: start to the last batch of the old one", found[last] - began)
    figures.add("pause: last commit to first commit", found[last + 1] - found[last])
    figures.add("the second batch behind it", found[last + 2] - found[last + 1])


@contextmanager
def _process(home: Path, rows: int, keys: int, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """The job in a process of its own, which is stopped at the end."""
    words = ["-m", "streamjob.runtime", "--local", "--state", str(home / "state"), *options, str(APP)]
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(streamjob.__file__).parents[1]),
        "SPARK_CONF_DIR": str(home / "conf"),
    }
    with (home / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, *words, "rate", str(rows), str(keys)],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait()


def _commits(home: Path) -> dict[int, float]:
    return commits_of(home / "state" / "checkpoints")


def commits_of(checkpoints: Path) -> dict[int, float]:
    """When each batch of the job was committed."""
    folder = checkpoints / "main" / "0" / "commits"
    found = {}
    for file in folder.iterdir() if folder.is_dir() else ():
        with suppress(FileNotFoundError):  # Spark deletes the old ones
            if file.name.isdigit():
                found[int(file.name)] = file.stat().st_mtime
    return found


def _boundary(home: Path) -> int:
    """The last batch of the process that has stopped."""
    latest = indices.loads((home / "state" / "index.json").read_text(), "index.json").latest
    assert latest is not None
    batch = latest.stages[0].tasks[0].batch
    assert batch is not None
    return batch


def _await_batch(home: Path, batch: int, process: subprocess.Popen[bytes]) -> None:
    _await(lambda: max(_commits(home), default=-1) >= batch, process)


def _await(fact: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    def is_so() -> bool:
        if process.poll() is not None:
            raise SystemExit(f"the job ended with code {process.returncode}")
        return fact()

    until(is_so, "what the benchmark waits for", PATIENCE, every=LOOK)
