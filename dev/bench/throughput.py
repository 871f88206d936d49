"""Rows per second with and without the runtime.

The runtime is a Python process beside the JVM that runs the queries. In every other turn of some seconds it is stopped
(SIGSTOP): so one JVM runs with it and without it, and nothing else differs. The rates of two JVMs, one of them bare, would
tell less: no two compile alike, and they differ by some percent whatever runs beside them.

What the runtime has given the JVM on its way up (settings, an environment, threads that answer it) is there in each turn. So a
job without it runs as well, and what the threads of both work for a batch is compared; without those that compile, and those
that run Spark's compiled tasks: there two bare JVMs differ as much, by chance, and nothing of ours is in them.
"""

from __future__ import annotations

import http.client
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dev.bench.endings import APP
from dev.bench.figures import Figures
from dev.bench.threads import Work, work
from dev.localdriver import FAST, LocalDriver

ROWS, KEYS = 200_000, 1_000  # a micro-batch
WARM = 150  # batches that are not counted: the JVM compiles on for a minute
COUNTED = 150  # batches of both jobs side by side
PAIRS, SECONDS = 24, 2.5  # of turns, and what a turn takes
POLL = 25.0  # the controller's
# Of threads, as far as Linux keeps their names.
COMPILERS = ("C1 Compiler", "C2 Compiler")
TASKS = ("Executor task l",)
PYTHON = ("python", "Thread-")  # and the JVM's threads that answer it, py4j's
RATIO = "rows/s with / without, in one JVM"


def measure(runs: int) -> Figures:
    figures = Figures()
    for run in range(runs):
        print(f"  throughput: run {run + 1} of {runs}", flush=True)
        home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
        try:
            with _managed(home) as managed:
                with _bare(home) as bare:
                    _side_by_side(bare, managed, figures)
                _in_turns(managed, figures)
        finally:
            shutil.rmtree(home, ignore_errors=True)
    for end, ratio in zip(("lower", "upper"), interval(figures.samples[RATIO]), strict=True):
        figures.add(f"{RATIO}: median of all, {end} end of the 95 % interval", ratio)
    return figures


def interval(samples: list[float]) -> tuple[float, float]:
    """Where their median lies with 95 % confidence: each sample is below the true one or above it as a coin falls."""
    ordered, count = sorted(samples), len(samples)
    left_out = max(int((count - 1.96 * math.sqrt(count)) / 2) - 1, 0)  # at each end
    return ordered[left_out], ordered[-1 - left_out]


def _in_turns(job: _Job, figures: Figures) -> None:
    with work(*job.processes) as counted:
        for pair in range(PAIRS):
            rates, worked = {}, {}
            # What drifts is the same for both: with, without, without, with.
            for runs in (True, False) if pair % 2 == 0 else (False, True):
                if not runs:
                    os.kill(job.processes[0], signal.SIGSTOP)
                since = _Since(job, counted)
                time.sleep(SECONDS)
                rates[runs], of_threads = since.now()
                worked[runs] = sum(of_threads.values()) - _part(of_threads, COMPILERS)
                os.kill(job.processes[0], signal.SIGCONT)
            figures.add(RATIO, rates[True] / rates[False])
            name = f"{counted.unit} a batch, all but compilers, with / without, in one JVM"
            figures.add(name, worked[True] / worked[False])


def _side_by_side(bare: _Job, managed: _Job, figures: Figures) -> None:
    for job in (bare, managed):
        job.reach(WARM)
    with work(*bare.processes) as of_bare, work(*managed.processes) as of_managed:
        begun = [_Since(bare, of_bare), _Since(managed, of_managed)]
        for job in (bare, managed):
            job.reach(WARM + COUNTED)
        others = []
        for kind, since in zip(("without", "with"), begun, strict=True):
            _, worked = since.now()
            tasks = _part(worked, TASKS)
            others.append(sum(worked.values()) - tasks - _part(worked, COMPILERS))
            name = f"{of_bare.unit} a batch, {kind}"
            figures.add(f"{name}: Spark's tasks", tasks)
            figures.add(f"{name}: all else but compilers", others[-1])
            figures.add(f"{name}: of it Python, and what answers it in the JVM", _part(worked, PYTHON))
        figures.add("all else, with / without, in two JVMs", others[1] / others[0])


def _part(worked: dict[str, float], names: tuple[str, ...]) -> float:
    return sum(amount for name, amount in worked.items() if name.startswith(names))


class _Since:
    """Of a job from its next commit on."""

    def __init__(self, job: _Job, counted: Work) -> None:
        self._job, self._work = job, counted
        self._batch, self._at = job.next_commit()
        self._before = counted.read()

    def now(self) -> tuple[float, dict[str, float]]:
        """At its next commit: rows a second, and what the threads have worked for a batch."""
        batch, at = self._job.next_commit()
        after, batches = self._work.read(), batch - self._batch
        return batches * ROWS / (at - self._at), {
            name: (after[name] - self._before.get(name, 0)) / batches for name in after
        }


class _Job:
    """A Python process, its JVM, and the commit log that it writes."""

    def __init__(self, commits: Path, pid: int) -> None:
        self._commits = commits
        self.reach(0)  # before a query runs, the JVM may not be there
        (jvm,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self.processes = pid, int(jvm)

    def reach(self, batch: int) -> None:
        deadline = time.monotonic() + 600
        while self._latest() < batch:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {batch} batches in {self._commits}")
            time.sleep(0.01)

    def next_commit(self) -> tuple[int, float]:
        """Wait for one: its batch, and when it was written, in seconds."""
        batch = self._latest() + 1
        self.reach(batch)
        return batch, (self._commits / str(batch)).stat().st_mtime_ns / 1e9

    def _latest(self) -> int:
        if not self._commits.exists():
            return -1
        return max((int(f.name) for f in self._commits.iterdir() if f.name.isdigit()), default=-1)


@contextmanager
def _managed(home: Path) -> Iterator[_Job]:
    with LocalDriver(home / "managed", APP, "rate", str(ROWS), str(KEYS)) as driver:
        job = _Job(home / "managed" / "checkpoints" / "main" / "0" / "commits", driver.process.pid)
        threading.Thread(target=_poll, args=(driver,), daemon=True).start()
        yield job


def _poll(driver: LocalDriver) -> None:
    """As the controller does, until the driver is gone."""
    with suppress(OSError, http.client.HTTPException):
        version = -1
        while True:
            version = driver.status(version, POLL).version


@contextmanager
def _bare(home: Path) -> Iterator[_Job]:
    (home / "conf").mkdir()
    # A bar of progress has a thread of its own, and the runtime has none drawn.
    settings = {**FAST, "spark.ui.showConsoleProgress": "false"}
    (home / "conf" / "spark-defaults.conf").write_text("".join(f"{k} {v}\n" for k, v in settings.items()))
    command = [sys.executable, str(APP), "rate", str(ROWS), str(KEYS), str(home / "bare")]
    environment = {**os.environ, "SPARK_CONF_DIR": str(home / "conf"), "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield _Job(home / "bare" / "commits", process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
