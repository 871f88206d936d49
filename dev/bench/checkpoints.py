"""The cost of a job-wide checkpoint: its duration, and how much it delays the queries.

The same job runs without checkpoints, and with so many that a checkpoint runs during every batch. The two
take turns, because the machine's speed drifts. The pause is the difference between the durations of their
batches.
"""

from __future__ import annotations

import re
import shutil
import statistics
import tempfile
from pathlib import Path

from dev.bench.figures import Figures
from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import CheckpointSettings
from streamjob.protocol.messages.driver_status import DriverStatus

APP = Path(__file__).with_name("queries.py")
ROWS = 20_000  # in a micro-batch
WARM, COUNTED = 8, 40  # batches of each query
KEEP = {"spark.sql.streaming.numRecentProgressUpdates": str(WARM + 4 * COUNTED)}


def measure(queries: int, runs: int) -> Figures:
    """Measure until a checkpoint is durable in the driver; the index is not part of the measurement.

    :param queries: number of queries of the job.
    """
    figures = Figures()
    for run in range(runs):
        print(f"  {queries} queries: run {run + 1} of {runs}", flush=True)
        home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
        try:
            with_them = {}
            # Alternate which goes first, so that the warmer machine does not always favour the same one.
            for interval in (0.0, 0.1) if run % 2 == 0 else (0.1, 0.0):
                with_them[interval > 0], durable = _batch(home / str(interval), queries, interval)
                for seconds in durable:
                    figures.add("checkpoint: triggered → durable (s)", seconds)
        finally:
            shutil.rmtree(home, ignore_errors=True)
        figures.add("batch without checkpoints, median (s)", with_them[False])
        figures.add("batch with one beside it, median (s)", with_them[True])
        figures.add("pause: the difference (s)", with_them[True] - with_them[False])
    return figures


def _batch(home: Path, queries: int, interval: float) -> tuple[float, list[float]]:
    """The median duration of all queries' batches, and the durations of the checkpoints, in seconds."""
    home.mkdir()
    took = home / "batches.txt"

    def enough(status: DriverStatus) -> bool:
        batches = [t.batch or 0 for s in status.stages for t in s.tasks]
        return len(batches) == queries and min(batches) >= WARM + COUNTED

    settings = CheckpointSettings(interval=interval)
    arguments = (str(queries), str(ROWS), str(WARM), str(took))
    with LocalDriver(home, APP, *arguments, checkpointing=settings, spark_conf=KEEP) as driver:
        driver.wait_for(lambda s: len(s.stages) == queries)
        done = 0
        while True:
            status = driver.wait_for(lambda s: enough(s) or _newest(s) > done, timeout=900)  # noqa: B023
            if enough(status):
                break
            done = _newest(status)
            driver.complete(done)  # as the controller does after it has committed the checkpoint to the index
        driver.finish(Mode.STOP)
        log = driver.log.read_text()
    batches = [float(line) for line in took.read_text().split()]
    # The last one belongs to the stop and includes its savepoint.
    return statistics.median(batches), [float(t) for t in re.findall(r"durable after ([0-9.]+) s", log)][:-1]


def _newest(status: DriverStatus) -> int:
    return status.completed.checkpoint if status.completed else 0
