"""A job without Kubernetes for tests: its folder, written by the runtime's own code, and its process.

python -m tests.cli.local_job DIR
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from streamjob.protocol.formats import index as indices
from streamjob.protocol.formats.records import CheckpointRecord, JobRef
from streamjob.protocol.lifecycle import Scenario, TaskState
from streamjob.protocol.messages.driver_config import Application, DriverConfig
from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, StageStatus, TaskStatus
from streamjob.protocol.messages.figures import Lag, QueryFigures, SourceFigures
from streamjob.protocol.times import timestamp
from streamjob.runtime.process.local.job_folder import JobFolder

ROOT = Path(__file__).parents[2]
FIGURES = QueryFigures(
    sources=(SourceFigures("source-0", Lag(rows=9, seconds=1.5)),), batch_seconds={"triggerExecution": 2.0}
)
RUNS = DriverStatus(
    3,
    "uid",
    2,
    DriverPhase.RUNNING,
    (StageStatus("windows", (TaskStatus(0, TaskState.RUNNING, 7),), figures=FIGURES),),
)


@dataclass
class Process:
    """A process that runs a job.

    :param folder: of the job.
    """

    folder: Path
    popen: subprocess.Popen[str]

    @property
    def runs(self) -> bool:
        return self.popen.poll() is None

    def end(self, signal: int) -> None:
        """Send it the signal, and wait for its end."""
        self.popen.send_signal(signal)
        self.popen.wait(60)


@contextmanager
def started(folder: Path) -> Iterator[Process]:
    """A job that runs in a process of its own, in its second epoch."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'operator'}:{ROOT}"}
    words = [sys.executable, "-m", "tests.cli.local_job", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as popen:
        try:
            assert popen.stdout is not None
            assert popen.stdout.readline() == "ready\n"
            yield Process(folder, popen)
        finally:
            popen.kill()


def run(place: JobFolder) -> None:
    """Run until SIGTERM, and end as a stop does: with a checkpoint in the index."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    place.lock()
    index = indices.empty("uid")
    place.write_index(index)
    job = JobRef("local", place.folder.name, index.job_uid)
    conf = {"spark.master": "local[*]"}
    script = Application(file="orders.py")
    place.write_config(DriverConfig(job, 2, script, place.uri("checkpoints"), spark_conf=conf))
    place.begin(2)
    place.write_status(RUNS)
    print("ready", flush=True)
    signal.sigwait([signal.SIGTERM])
    savepoint = place.uri("savepoints", "stop-2")
    at = timestamp(datetime.now(timezone.utc))
    record = CheckpointRecord(5, 2, Scenario.STOP, "stop-2", savepoint, at, ())
    place.write_index(indices.add(index, record))
    place.write_status(replace(RUNS, phase=DriverPhase.TERMINATED))


if __name__ == "__main__":
    run(JobFolder(Path(sys.argv[1])))
