"""How fast savepoints are written, compared with `cp -r` and `sync` of the same directory on the same disk,
in turns.

Also measures memory, and how much a live savepoint delays a query (see `pause`).
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from dev.bench import pause
from dev.bench.figures import Figures
from dev.bench.session import session
from streamjob.protocol.formats.records import CheckpointRecord, JobRef, StageRecord, TaskRecord
from streamjob.runtime.savepoints.catalog import delete_savepoint, export
from streamjob.runtime.savepoints.layout import verify_savepoint
from streamjob.runtime.savepoints.restore import restore
from streamjob.runtime.savepoints.write import write_savepoint
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.storage.hadoop import HadoopFiles

JOB = JobRef("bench", "bench", "bench")
PARTITIONS = 200  # Spark's default; each has one large and four small files, as with RocksDB's changelog
# How much of the state is in the disk cache when it is copied: all, as right after a run that wrote it, or
# nothing.
IN_MEMORY, ON_DISK = "state in memory", "state on the disk only"
STATES = (IN_MEMORY, ON_DISK)
ENOUGH = 600.0  # seconds for one size, after which no further run begins
COPIES = 4.5  # how many copies of the state are on the disk at once, at most
# Names as RocksDB gives them. A name with a number only would be a version, which a live savepoint leaves
# out.
LARGE = "SSTs/000008-5f0a3c1e-0000-4000-8000-000000000008.sst"
SMALL = {"1.zip": 2_000, "2.changelog": 1_000, "3.changelog": 1_000, "4.changelog": 1_000}


def lacks_room(size: int, copies: float) -> str | None:
    """Why the measurement cannot run on this disk; None if it can.

    :param size: in bytes.
    :param copies: how many copies of `size` bytes are on the disk at once, at most.
    """
    folder, needed = tempfile.gettempdir(), copies * size
    free = shutil.disk_usage(folder).free
    return (
        None
        if free > needed
        else f"it takes {needed / 1e9:.0f} GB in {folder}, where {free / 1e9:.0f} are free"
    )


def measure(size: int, runs: int) -> Figures:
    """Measure savepoints of one size.

    :param size: bytes of state.
    """
    figures = Figures()
    home = Path(tempfile.mkdtemp(prefix="streamjob-bench-"))
    began = time.monotonic()
    try:
        with session(pause.SETTINGS) as spark:
            print(f"  savepoint: {size / 1e9:g} GB are written", flush=True)
            source = _Source(HadoopFiles(spark), home, size)
            source.save("warm")
            source.delete("warm")
            for run in range(runs):
                if run and time.monotonic() - began > ENOUGH:
                    print(
                        f"  savepoint: {run} runs have taken {ENOUGH / 60:.0f} minutes, no more", flush=True
                    )
                    break
                print(f"  savepoint: run {run + 1} of {runs}", flush=True)
                _run(source, figures, run)
                pause.measure(
                    spark,
                    f"file:{home}/beside-{run}",
                    lambda: source.save("beside", live=True),
                    lambda: source.delete("beside"),
                    figures,
                )
    finally:
        shutil.rmtree(home, ignore_errors=True)
    return figures


def _run(source: _Source, figures: Figures, run: int) -> None:
    for state in STATES:
        if state == IN_MEMORY and not _fits(source.size):
            continue
        _pair(source, figures, run, state)
        if state != STATES[-1]:
            source.delete("first")
    before = source.shared()
    source.change(every=100)
    timed(lambda: source.save("second"), figures, "savepoint, after 1 % of the files changed")
    figures.add("of its bytes newly written, %", 100 * (source.shared() - before) / before)
    timed(lambda: verify_savepoint(source.files, source.uri("second")), figures, "verify")
    restored = f"file:{source.home}/restored"
    timed(lambda: restore(source.files, source.uri("second"), "bench", 0, restored), figures, "restore")
    exported = f"file:{source.home}/exported/copy"
    timed(lambda: export(source.files, source.uri("second"), exported), figures, "export")
    timed(lambda: source.delete("first"), figures, "delete")
    source.delete("second")
    for name in ("restored", "exported"):
        shutil.rmtree(source.home / name)


def _pair(source: _Source, figures: Figures, run: int, state: str) -> None:
    """Measure `cp` and a savepoint of the same files. For both, the files are in the same state, the disk is
    idle, and nothing of the other's output is in memory. Which goes first alternates between runs.
    """

    def copy() -> None:
        subprocess.run(["cp", "-r", source.folder, source.home / "copy"], check=True)
        subprocess.run(["sync"], check=True)

    both: list[tuple[str, Callable[[], object]]] = [
        ("cp -r and sync", copy),
        ("savepoint, the first", lambda: source.save("first")),
    ]
    processes = Processes(source.files.spark)
    seconds = {}
    for name, what in both if run % 2 else both[::-1]:
        subprocess.run(["sync"], check=True)
        (_read if state == IN_MEMORY else _forget)(source.folder)
        before = processes.seconds()
        seconds[name] = timed(what, figures, f"{name}, {state}")
        figures.add(f"{name}, {state}: processor time", processes.seconds() - before)
        for folder in ("copy", "savepoints"):
            _forget(source.home / folder)
    ratio = seconds[both[0][0]] / seconds[both[1][0]]
    figures.add(f"speed of the first, cp -r and sync = 1, {state}", ratio)
    for name, megabytes in processes.peaks().items():
        figures.add(f"resident memory of the driver's {name}, peak, MB", megabytes)
    shutil.rmtree(source.home / "copy")


class Processes:
    """This process, its JVM and the commands that it has run."""

    def __init__(self, spark: SparkSession) -> None:
        self._processes = {"Python": os.getpid(), "JVM": spark.sparkContext._gateway.proc.pid}  # type: ignore[union-attr]
        for pid in self._processes.values():
            Path(f"/proc/{pid}/clear_refs").write_text("5")  # reset the peak of its memory

    def peaks(self) -> dict[str, float]:
        """Peak of resident memory in MB since this object was created, by process."""
        found = {}
        for name, pid in self._processes.items():
            line = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
            found[name] = int(line[1]) / 1000 if line else 0.0
        return found

    def seconds(self) -> float:
        """Processor time of all of them since they started. Excludes the kernel's own threads, which write to
        the disk.
        """
        stat = Path(f"/proc/{self._processes['JVM']}/stat").read_text().rpartition(")")[2].split()
        jvm = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
        return jvm + sum(os.times()[:4])


def _fits(size: int) -> bool:
    """Whether so many bytes stay in the disk cache, together with the part of their copy that is not written
    yet.
    """
    available = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    return available is not None and 1.5 * size < int(available[1]) * 1024


def _read(folder: Path) -> None:
    """Bring the whole folder into the disk cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 20):
                    pass


def _forget(folder: Path) -> None:
    """Evict the folder from the disk cache. It must have been synced."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def timed(what: Callable[[], object], figures: Figures, name: str) -> float:
    began = time.monotonic()
    what()
    seconds = time.monotonic() - began
    figures.add(name, seconds)
    return seconds


class _Source:
    """A checkpoint directory and its savepoints."""

    def __init__(self, files: HadoopFiles, home: Path, size: int) -> None:
        self.files, self.home, self.size = files, home, size
        self.folder = home / "checkpoint"
        self._number = 0
        self._write(self.folder / "metadata", b'{"id":"00000000-0000-0000-0000-000000000000"}')
        self._write(self.folder / "offsets" / "0", b'v1\n{"batchWatermarkMs":0}\n{}')
        self._write(self.folder / "commits" / "0", b'v1\n{"nextBatchWatermarkMs":0}')
        for partition in range(PARTITIONS):
            place = self.folder / "state" / "0" / str(partition)
            self._write(place / LARGE, os.urandom(size // PARTITIONS))
            for name, small in SMALL.items():
                self._write(place / name, os.urandom(small))
        subprocess.run(["sync"], check=True)

    def change(self, every: int) -> None:
        """Rewrite one of every `every` files, among the large and the small ones."""
        for pattern in (LARGE, *SMALL):
            for path in sorted((self.folder / "state" / "0").glob(f"*/{pattern}"))[::every]:
                self._write(path, os.urandom(path.stat().st_size))

    def save(self, name: str, live: bool = False) -> None:
        self._number += 1
        task = TaskRecord(0, f"file:{self.folder}", 0)
        stages = (StageRecord("bench", (task,), ()),)
        record = CheckpointRecord(self._number, 1, None, name, self.uri(name), "2026-01-01T00:00:00Z", stages)
        directories = {("bench", 0): CheckpointDir(self.files, task.location)}
        write_savepoint(self.files, JOB, record, directories, self.uri(name), live=live)

    def delete(self, name: str) -> None:
        delete_savepoint(self.files, self.uri(name))

    def uri(self, name: str) -> str:
        return f"file:{self.home}/savepoints/{name}"

    def shared(self) -> int:
        """Size of the shared files, in bytes."""
        return sum(p.stat().st_size for p in (self.home / "savepoints" / "shared").iterdir())

    def _write(self, path: Path, data: bytes) -> None:
        """Write a file that is a minute old, as most files are when a savepoint is taken."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        # Hadoop, and so Spark, writes a CRC-32 of every 512 bytes to a second file. Whoever reads the file
        # checks it.
        chunks = (zlib.crc32(data[i : i + 512]) for i in range(0, len(data), 512))
        checksums = b"crc\0" + struct.pack(">i", 512) + b"".join(c.to_bytes(4, "big") for c in chunks)
        path.with_name(f".{path.name}.crc").write_bytes(checksums)
        when = time.time() - 60 + self._number
        os.utime(path, (when, when))
