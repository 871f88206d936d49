"""How fast savepoints are written on S3: by server-side copy and through the driver.

The comparison is `cp -r` and `sync` of the folder in which the server (versitygw) keeps the same objects.
Also measures how much a live savepoint delays a query (see `pause`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dev.bench import pause
from dev.bench.figures import Figures
from dev.bench.savepoint import JOB, LARGE, PARTITIONS, SMALL, Processes, timed
from dev.bench.session import session
from dev.s3.server import CONNECTOR, S3
from streamjob.protocol.formats.records import CheckpointRecord, StageRecord, TaskRecord
from streamjob.runtime.savepoints.catalog import delete_savepoint
from streamjob.runtime.savepoints.layout import verify_savepoint
from streamjob.runtime.savepoints.restore import restore
from streamjob.runtime.savepoints.write import write_savepoint
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.storage.hadoop import CopiedFile, HadoopFiles

ROOT = "s3a://bench"
NUMBERS = {"first": 1, "second": 2, "beside": 3}
COPIES = 5.5  # how many copies of the state are on the disk at once, at most


class Streaming(HadoopFiles):
    """File access without server-side copies."""

    def _copied_by_store(self, source: str, target: str) -> CopiedFile | None:
        return None


def measure(size: int, runs: int) -> Figures:
    """Measure savepoints of one size.

    :param size: bytes of state.
    """
    figures = Figures()
    home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
    server = S3(home / "s3")
    (home / "s3").mkdir()
    server.start()
    settings = {f"spark.hadoop.{k}": v for k, v in {**server.settings(), **server.keys}.items()}
    try:
        with session({**settings, **pause.SETTINGS, "spark.jars": CONNECTOR}) as spark:
            bucket = server.bucket("bench")
            files = HadoopFiles(spark)
            print(f"  savepoint-s3: {size / 1e9:g} GB are sent", flush=True)
            source = _Source(files, home / "source", size)
            for run in range(runs):
                print(f"  savepoint-s3: run {run + 1} of {runs}", flush=True)
                _run(figures, bucket, source, files, Streaming(spark), run)
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)
    return figures


def _run(
    figures: Figures, bucket: Path, source: _Source, files: HadoopFiles, streaming: HadoopFiles, run: int
) -> None:
    def copy() -> None:
        subprocess.run(["cp", "-r", bucket / "checkpoint", bucket.parent.parent / "copy"], check=True)
        subprocess.run(["sync"], check=True)

    ways: list[tuple[str, Callable[[], object]]] = [
        ("cp -r and sync of the server's folder", copy),
        ("savepoint, copied by the server", lambda: _save(files, "server", "first")),
        ("savepoint, through the driver", lambda: _save(streaming, "driver", "first")),
    ]
    for name, way in ways[run % 3 :] + ways[: run % 3]:
        subprocess.run(["sync"], check=True)
        processes = Processes(files.spark)
        timed(way, figures, name)
        if name.startswith("savepoint"):
            figures.add(f"{name}: resident memory of the JVM, peak, MB", processes.peaks()["JVM"])
        if name.endswith("folder"):
            shutil.rmtree(bucket.parent.parent / "copy")
    source.change(every=100)
    for how, through, root in (
        (", copied by the server", files, "server"),
        (", through the driver", streaming, "driver"),
    ):
        _after(figures, bucket, through, root, how)
        _beside(figures, through, root, how, run)


def _after(figures: Figures, bucket: Path, files: HadoopFiles, root: str, how: str) -> None:
    """Measure the second savepoint: writing, verifying, restoring."""
    savepoint, restored = f"{ROOT}/savepoints-{root}/second", f"{ROOT}/restored"
    shared = bucket / f"savepoints-{root}" / "shared"
    before = _size(shared)
    timed(lambda: _save(files, root, "second"), figures, f"savepoint{how}, after 1 % of the files changed")
    figures.add(f"of its bytes newly written{how}, %", 100 * (_size(shared) - before) / before)
    timed(lambda: verify_savepoint(files, savepoint), figures, f"verify{how}")
    timed(lambda: restore(files, savepoint, "bench", 0, restored), figures, f"restore{how}")
    for name in ("first", "second"):
        delete_savepoint(files, f"{ROOT}/savepoints-{root}/{name}")
    files.delete(restored)


def _beside(figures: Figures, files: HadoopFiles, root: str, how: str, run: int) -> None:
    """Measure the delay of a query whose own checkpoint is on S3 as well."""
    pause.measure(
        files.spark,
        f"{ROOT}/beside-{root}-{run}",
        lambda: _save(files, root, "beside", live=True),
        lambda: delete_savepoint(files, f"{ROOT}/savepoints-{root}/beside"),
        figures,
        how,
    )


def _save(files: HadoopFiles, root: str, name: str, live: bool = False) -> None:
    task = TaskRecord(0, f"{ROOT}/checkpoint", 0)
    stages = (StageRecord("bench", (task,), ()),)
    target = f"{ROOT}/savepoints-{root}/{name}"
    record = CheckpointRecord(NUMBERS[name], 1, None, name, target, "2026-01-01T00:00:00Z", stages)
    directories = {("bench", 0): CheckpointDir(files, task.location)}
    write_savepoint(files, JOB, record, directories, target, live=live)


def _size(folder: Path) -> int:
    """Size of the files in a folder, in bytes."""
    return sum(p.stat().st_size for p in folder.iterdir())


class _Source:
    """A checkpoint directory of objects that were uploaded through S3."""

    def __init__(self, files: HadoopFiles, local: Path, size: int) -> None:
        self._files, self._local = files, local
        self._put("metadata", b'{"id":"00000000-0000-0000-0000-000000000000"}')
        self._put("offsets/0", b'v1\n{"batchWatermarkMs":0}\n{}')
        self._put("commits/0", b'v1\n{"nextBatchWatermarkMs":0}')
        state = {LARGE: size // PARTITIONS, **SMALL}
        self._state = [
            (f"state/0/{n}/{name}", length) for name, length in state.items() for n in range(PARTITIONS)
        ]
        self._write(self._state)

    def change(self, every: int) -> None:
        """Rewrite one of every `every` files, among the large and the small ones."""
        self._write(self._state[::every])

    def _write(self, state: list[tuple[str, int]]) -> None:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda item: self._put(item[0], os.urandom(item[1])), state))
        time.sleep(3)  # the server's modification times have whole seconds
        subprocess.run(["sync"], check=True)

    def _put(self, path: str, data: bytes) -> None:
        place = self._local / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data)
        self._files.copy(f"file:{place}", f"{ROOT}/checkpoint/{path}")
        place.unlink()
