"""Rows per second with and without the runtime.

The runtime is a Python process next to the JVM that runs the queries. Time is divided into turns of some
seconds, and in every other turn the runtime is suspended (SIGSTOP). So the same JVM runs with and without the
runtime, and nothing else differs. Comparing two JVMs, one of them bare, would tell less: no two JVMs compile
alike, so their rates differ by some percent anyway.

What the runtime gave the JVM at the start (settings, an environment, threads that answer it) is present in
every turn. Therefore a job without the runtime is measured as well, and the work of both jobs' threads for a
batch is compared. Compiler threads and the threads of Spark's compiled tasks are left out: there two bare
JVMs differ as much by chance, and those threads run no code of ours.
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

ROWS, KEYS = 200_000, 1_000  # in a micro-batch
WARM = 150  # batches that do not count: the JVM keeps compiling for a minute
COUNTED = 150  # batches of both jobs in parallel
PAIRS, SECONDS = 24, 2.5  # pairs of turns, and seconds of a turn
POLL = 25.0  # seconds; as long as the controller's long poll
# Names of threads, as far as Linux keeps them.
COMPILERS = ("C1 Compiler", "C2 Compiler")
TASKS = ("Executor task l",)
PYTHON = ("python", "Thread-")  # Python, and py4j's threads in the JVM, which answer it
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
    """The 95 % confidence interval of the median: each sample is below or above the true median with equal
    probability.
    """
    ordered, count = sorted(samples), len(samples)
    left_out = max(int((count - 1.96 * math.sqrt(count)) / 2) - 1, 0)  # at each end
    return ordered[left_out], ordered[-1 - left_out]


def _in_turns(job: _Job, figures: Figures) -> None:
    with work(*job.processes) as counted:
        for pair in range(PAIRS):
            rates, worked = {}, {}
            # With, without, without, with: drift affects both equally.
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
    """Measures a job from its next commit on."""

    def __init__(self, job: _Job, counted: Work) -> None:
        self._job, self._work = job, counted
        self._batch, self._at = job.next_commit()
        self._before = counted.read()

    def now(self) -> tuple[float, dict[str, float]]:
        """Wait for the next commit. Return rows per second, and the work of each thread per batch."""
        batch, at = self._job.next_commit()
        after, batches = self._work.read(), batch - self._batch
        return batches * ROWS / (at - self._at), {
            name: (after[name] - self._before.get(name, 0)) / batches for name in after
        }


class _Job:
    """A Python process, its JVM, and the commit log that it writes."""

    def __init__(self, commits: Path, pid: int) -> None:
        self._commits = commits
        self.reach(0)  # until a query runs, there may be no JVM
        (jvm,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        self.processes = pid, int(jvm)

    def reach(self, batch: int) -> None:
        deadline = time.monotonic() + 600
        while self._latest() < batch:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no {batch} batches in {self._commits}")
            time.sleep(0.01)

    def next_commit(self) -> tuple[int, float]:
        """Wait for the next commit. Return its batch, and when it was written, in seconds since 1970."""
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
    """Poll the status as the controller does, until the driver has exited."""
    with suppress(OSError, http.client.HTTPException):
        version = -1
        while True:
            version = driver.status(version, POLL).version


@contextmanager
def _bare(home: Path) -> Iterator[_Job]:
    (home / "conf").mkdir()
    # A progress bar would need its own thread, and the runtime turns it off.
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
