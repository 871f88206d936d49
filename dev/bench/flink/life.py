"""The life of Flink's job, as that of ours: stop, resume and drain of a job that has counted all keys and is
idle.

Each end is a request to Flink's REST API, as `flink stop` makes it. Flink's own timestamps and the
savepoint's file tell when something happened, so no figure includes our polling.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.bench.figures import Figures
from dev.bench.flink import answers, cluster, job, library
from dev.bench.flink.answers import JobFailed, Savepoint
from dev.bench.flink.names import CANONICAL, DRAIN, NATIVE, ROWS_OUT, complete, ended, loaded, running, stop

FEW = 1_000  # rows that wait for a resumed job, with the first of the keys


class Flink:
    """A warm cluster on which jobs live, one after the other."""

    def __init__(self, on: cluster.Flink, client: job.Client) -> None:
        self._cluster, self._client = on, client

    def life(self, home: Path, keys: int, figures: Figures, out: Path | None = None) -> None:
        """Measure one life: stop with a canonical savepoint, resume, stop with a native one, resume,
        drain.

        :param out: where the job writes what it counts; by default it drops it.
        :raises JobFailed: the job failed, or a stop did.
        """
        rows = home / "rows"
        for file in range(2):
            job.write_rows(rows / f"{file}.csv", keys)
        try:
            first = self._submit(home, out)
            self._wait_until_idle(first, 2 * keys)
            savepoint = self._stop(first, home, CANONICAL, figures)
            job.write_rows(rows / "2.csv", min(keys, FEW))
            second = self._resume(home, out, savepoint, CANONICAL, figures)
            self._wait_until_idle(second, min(keys, FEW))
            savepoint = self._stop(second, home, NATIVE, figures)
            third = self._resume(home, out, savepoint, NATIVE, figures)
            self._wait_until_idle(third, 0)
            self._drain(third, home, figures)
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def _submit(self, home: Path, out: Path | None, savepoint: Savepoint | None = None) -> str:
        return self._client.submit(home / "rows", home / "checkpoints", savepoint and savepoint.folder, out)

    def _resume(self, home: Path, out: Path | None, savepoint: Savepoint, kind: str, figures: Figures) -> str:
        job_id = self._submit(home, out, savepoint)
        submitted = answers.submitted(self._job(job_id))
        figures.add(running(kind), self._running(job_id) - submitted)
        figures.add(loaded(kind), self._checkpoint(job_id) - submitted)
        return job_id

    def _stop(self, job_id: str, home: Path, kind: str, figures: Figures) -> Savepoint:
        asked, finished = self._end(job_id, home, drain=False, kind=kind)
        savepoint = self._savepoint(job_id)
        figures.add(complete(stop(kind)), _written(savepoint) - asked)
        figures.add(ended(stop(kind)), finished - asked)
        return savepoint

    def _drain(self, job_id: str, home: Path, figures: Figures) -> None:
        windows = answers.windows(self._job(job_id))
        asked, finished = self._end(job_id, home, drain=True, kind=CANONICAL)
        savepoint = self._savepoint(job_id)
        subtasks = self._cluster.get(f"/jobs/{job_id}/checkpoints/details/{savepoint.id}/subtasks/{windows}")
        figures.add(ROWS_OUT, answers.barrier(savepoint.triggered, subtasks) - asked)
        figures.add(complete(DRAIN), _written(savepoint) - asked)
        figures.add(ended(DRAIN), finished - asked)

    def _end(self, job_id: str, home: Path, *, drain: bool, kind: str) -> tuple[float, float]:
        """End the job. Return when it was asked to, and when it was FINISHED."""
        order = {
            "targetDirectory": f"file://{home / 'savepoints'}",
            "drain": drain,
            "formatType": kind.upper(),
        }
        asked = time.time()
        request = self._cluster.post(f"/jobs/{job_id}/stop", order)["request-id"]

        def finished() -> float | None:
            if reason := answers.failure(self._cluster.get(f"/jobs/{job_id}/savepoints/{request}")):
                raise JobFailed(reason)
            return answers.finished(self._job(job_id))

        return asked, self._cluster.wait(finished, "the job's end")

    def _wait_until_idle(self, job_id: str, rows: int) -> None:
        """Wait until the windows have read all rows, and a checkpoint that began afterwards has them."""
        self._running(job_id)
        self._cluster.wait(lambda: answers.read(self._job(job_id)) >= rows or None, f"{rows} rows read")
        self._checkpoint(job_id, time.time())

    def _running(self, job_id: str) -> float:
        def all_tasks() -> float | None:
            vertices = [vertex["id"] for vertex in self._job(job_id)["vertices"]]
            path = f"/jobs/{job_id}/vertices"
            return answers.running([self._cluster.get(f"{path}/{v}/subtasktimes") for v in vertices])

        return self._cluster.wait(all_tasks, "all tasks RUNNING")

    def _checkpoint(self, job_id: str, since: float = 0) -> float:
        path = f"/jobs/{job_id}/checkpoints"
        return self._cluster.wait(lambda: answers.completed(self._cluster.get(path), since), "a checkpoint")

    def _savepoint(self, job_id: str) -> Savepoint:
        return answers.savepoint(self._cluster.get(f"/jobs/{job_id}/checkpoints"))

    def _job(self, job_id: str) -> answers.Answer:
        return answers.checked(self._cluster.get(f"/jobs/{job_id}"))


@contextmanager
def warm(home: Path) -> Iterator[Flink]:
    """Run a cluster that has lived one life, so that its JVMs have loaded and compiled what they need.

    :raises NoFlink: Flink cannot be had here.
    """
    jars = library.jars()
    with cluster.running(home, jars) as on, job.client(jars, on.port, home) as client:
        flink = Flink(on, client)
        print("  Flink: a first life that does not count", flush=True)
        _prove(flink, home)
        yield flink


def _prove(flink: Flink, home: Path) -> None:
    """Live a life that writes what it counts: a drain emits every window, once and whole.

    :raises JobFailed: it does not.
    """
    out = home / "out"
    flink.life(home / "warm", FEW, Figures(), out)
    rows = 3  # with each key: two files, and one that waits for the resumed job
    if job.counted(out) != [(key, rows) for key in range(FEW)]:
        raise JobFailed(f"Flink's job has not emitted every window of {FEW} keys once, see {out}")


def _written(savepoint: Savepoint) -> float:
    """When the savepoint's metadata was written, which comes last."""
    return (Path(savepoint.folder) / "_metadata").stat().st_mtime
