"""From a SIGKILL to the next commit, with a prepared driver beside the killed one.

We are the controller, and open the gate as soon as the process is gone. What a cluster adds (the kubelet
tells the end, the controller decides) is in the figures of tests/e2e/test_standby.py.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from dev.bench.endings import APP, ROCKSDB
from dev.bench.figures import Figures
from dev.bench.handover import LOOK, ROWS, STEADY, commits_of
from dev.demo.waiting import PATIENCE, until
from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Gate, Restore
from streamjob.protocol.messages.driver_status import DriverPhase


def measure(keys: int, runs: int) -> Figures:
    """Kill the running driver `runs` times; each time its standby becomes the running one."""
    figures = Figures()
    home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
    words = ("rate", str(ROWS), str(keys))
    try:
        with ExitStack() as ends:
            filling = LocalDriver(home, APP, "rate", str(keys), str(keys), spark_conf=ROCKSDB)
            ends.enter_context(filling)
            filling.running(1)
            filled = filling.finish(Mode.STOP)
            driver = ends.enter_context(filling.next_epoch(APP, *words, spark_conf=ROCKSDB))
            restore = Restore(latest=filled, again=True)
            for run in range(runs):
                print(f"  {keys:,} keys: failover {run + 1} of {runs}", flush=True)
                _await_batches(home, STEADY)
                standby = driver.next_epoch(
                    APP, *words, spark_conf=ROCKSDB, prepared=True, restore=Restore(), next_checkpoint=1
                )
                ends.enter_context(standby)
                standby.wait_for(lambda s: s.phase is DriverPhase.PREPARED)
                _await_batches(home, STEADY)
                gate = Gate(f"gate-{standby.epoch}", standby.epoch, restore, filled.checkpoint + 1)
                _fail_over(home, driver, standby, gate, figures)
                driver = standby
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return figures


def _fail_over(home: Path, driver: LocalDriver, standby: LocalDriver, gate: Gate, figures: Figures) -> None:
    steady = _commits(home)
    began = time.time()
    driver.kill()
    last = max(_commits(home))
    code, text = standby.call("PUT", "/v1/gate", gate)
    assert code == 202, text
    _await_batches(home, 1)
    found = _commits(home)
    figures.add("a batch before", (steady[max(steady)] - steady[max(steady) - 8]) / 8)
    figures.add("SIGKILL to the next commit", found[last + 1] - began)
    figures.add("pause: last commit to first commit", found[last + 1] - found[last])


def _commits(home: Path) -> dict[int, float]:
    return commits_of(home / "checkpoints")


def _await_batches(home: Path, more: int) -> None:
    """Wait until so many batches more have been committed."""
    last = max(_commits(home), default=-1)
    until(lambda: max(_commits(home), default=-1) >= last + more, "more batches", PATIENCE, every=LOOK)
