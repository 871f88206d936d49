"""How fast savepoints are written, beside `cp -r` and `sync` of the same directory on the same disk, in turns."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from dev.bench.figures import Figures
from streamjob.protocol.records import CheckpointRecord, JobRef, StageRecord, TaskRecord
from streamjob.runtime.catalog import delete_savepoint, export
from streamjob.runtime.checkpointdir import CheckpointDir
from streamjob.runtime.files import HadoopFiles
from streamjob.runtime.savepoint import restore, write_savepoint
from streamjob.runtime.savepointdir import verify_savepoint

JOB = JobRef("bench", "bench", "bench")
PARTITIONS = 200  # Spark's own number; each with one large file and four small ones, as RocksDB with changelog has them
SMALL = {"1.zip": 2_000, "2.changelog": 1_000, "3.changelog": 1_000, "4.changelog": 1_000}


def measure(size: int, runs: int) -> Figures:
    """:param size: bytes of state."""
    figures = Figures()
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
    try:
        source = _Source(HadoopFiles(spark), home, size)
        source.save("warm")
        source.delete("warm")
        for run in range(runs):
            print(f"  savepoint: run {run + 1} of {runs}", flush=True)
            _run(source, figures, run)
    finally:
        shutil.rmtree(home, ignore_errors=True)
        spark.stop()
    return figures


def _run(source: _Source, figures: Figures, run: int) -> None:
    def copy() -> None:
        subprocess.run(["cp", "-r", source.folder, source.home / "copy"], check=True)
        subprocess.run(["sync"], check=True)

    both: list[tuple[str, Callable[[], object]]] = [
        ("cp -r and sync", copy),
        ("savepoint, the first", lambda: source.save("first")),
    ]
    # Which goes first changes, so that neither has the emptier disk cache each time.
    seconds = {name: _timed(what, figures, name) for name, what in (both if run % 2 else both[::-1])}
    figures.add("speed of the first: cp -r and sync / savepoint", seconds[both[0][0]] / seconds[both[1][0]])
    shutil.rmtree(source.home / "copy")
    before = source.shared()
    source.change(every=100)
    _timed(lambda: source.save("second"), figures, "savepoint, after 1 % of the files changed")
    figures.add("of its bytes written anew, %", 100 * (source.shared() - before) / before)
    _timed(lambda: verify_savepoint(source.files, source.uri("second")), figures, "verify")
    restored = f"file:{source.home}/restored"
    _timed(lambda: restore(source.files, source.uri("second"), "bench", 0, restored), figures, "restore")
    exported = f"file:{source.home}/exported/copy"
    _timed(lambda: export(source.files, source.uri("second"), exported), figures, "export")
    _timed(lambda: source.delete("first"), figures, "delete")
    source.delete("second")
    for name in ("restored", "exported"):
        shutil.rmtree(source.home / name)


def _timed(what: Callable[[], object], figures: Figures, name: str) -> float:
    began = time.monotonic()
    what()
    seconds = time.monotonic() - began
    figures.add(name, seconds)
    return seconds


class _Source:
    """A checkpoint directory, and its savepoints."""

    def __init__(self, files: HadoopFiles, home: Path, size: int) -> None:
        self.files, self.home = files, home
        self.folder = home / "checkpoint"
        self._number = 0
        self._write(self.folder / "metadata", b'{"id":"00000000-0000-0000-0000-000000000000"}')
        self._write(self.folder / "offsets" / "0", b'v1\n{"batchWatermarkMs":0}\n{}')
        self._write(self.folder / "commits" / "0", b'v1\n{"nextBatchWatermarkMs":0}')
        for partition in range(PARTITIONS):
            place = self.folder / "state" / "0" / str(partition)
            self._write(place / "SSTs" / "000008.sst", os.urandom(size // PARTITIONS))
            for name, small in SMALL.items():
                self._write(place / name, os.urandom(small))
        subprocess.run(["sync"], check=True)

    def change(self, every: int) -> None:
        """Write one of so many files anew, of the large and of the small ones."""
        for pattern in ("SSTs/000008.sst", *SMALL):
            for path in sorted((self.folder / "state" / "0").glob(f"*/{pattern}"))[::every]:
                self._write(path, os.urandom(path.stat().st_size))

    def save(self, name: str) -> None:
        self._number += 1
        task = TaskRecord(0, f"file:{self.folder}", 0)
        stages = (StageRecord("bench", (task,), ()),)
        record = CheckpointRecord(self._number, 1, None, name, self.uri(name), "2026-01-01T00:00:00Z", stages)
        directories = {("bench", 0): CheckpointDir(self.files, task.location)}
        write_savepoint(self.files, JOB, record, directories, self.uri(name))

    def delete(self, name: str) -> None:
        delete_savepoint(self.files, self.uri(name))

    def uri(self, name: str) -> str:
        return f"file:{self.home}/savepoints/{name}"

    def shared(self) -> int:
        """Bytes."""
        return sum(p.stat().st_size for p in (self.home / "savepoints" / "shared").iterdir())

    def _write(self, path: Path, data: bytes) -> None:
        """As old as files are when a savepoint is taken: most of them."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        # As Hadoop, and so Spark, writes files of a volume: a CRC-32 of each 512 bytes beside them. It is checked by who reads.
        chunks = (zlib.crc32(data[i : i + 512]) for i in range(0, len(data), 512))
        checksums = b"crc\0" + struct.pack(">i", 512) + b"".join(c.to_bytes(4, "big") for c in chunks)
        path.with_name(f".{path.name}.crc").write_bytes(checksums)
        when = time.time() - 60 + self._number
        os.utime(path, (when, when))
