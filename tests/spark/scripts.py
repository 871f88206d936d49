"""Scripts as their users write them, without a word of the runtime: their input, what they say, what they
write.
"""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver

from .feeds import SCHEMA, Feed, eventually

HEAD = """\
import atexit
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

SCHEMA = "t timestamp, k string, v long"
OFTEN = {"processingTime": "100 milliseconds"}
home = sys.argv[1]
spark = SparkSession.builder.getOrCreate()


def read(name, files=1):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", files).json(f"{home}/{name}")


def windows(rows):
    late = rows.withWatermark("t", "10 minutes")
    return late.groupBy(F.window("t", "5 minutes")).agg(F.sum("v").alias("v")).select("window.start", "v")


def start(name, rows, how=OFTEN, folder=None):
    writer = rows.writeStream.queryName(name).format("json").trigger(**how)
    return writer.start(f"{home}/{folder or name}")


def into(name):
    def write(frame, batch):
        frame.write.mode("overwrite").json(f"{home}/{name}/{batch:05}")
    return write


def await_batch(query, batch=0):
    while query.isActive and (query.lastProgress is None or query.lastProgress["batchId"] < batch):
        time.sleep(0.02)


def say(*words):
    # In one write: the runtime's log goes to the same place.
    sys.stdout.write("script: " + " ".join(map(str, words)) + "\\n")
    sys.stdout.flush()


"""


class Script:
    """One of a test's own, in a folder that it is told as its first argument. Input is in `in`."""

    def __init__(self, home: Path, text: str) -> None:
        self.home = home
        self.file = home / "app.py"
        self.file.write_text(HEAD + dedent(text))
        self.feed = Feed(home / "in")

    def driver(self, *args: str, **config: object) -> LocalDriver:
        return LocalDriver(self.home, self.file, str(self.home), *args, **config)  # type: ignore[arg-type]

    def next(self, before: LocalDriver, *args: str, **config: object) -> LocalDriver:
        return before.next_epoch(self.file, str(self.home), *args, **config)  # type: ignore[arg-type]

    def values(self, spark: SparkSession, name: str) -> list[int]:
        """Of `v` in what it has written."""
        found = spark.read.option("recursiveFileLookup", True).schema("v long").json(str(self.home / name))
        return sorted(row.v for row in found.collect())

    def windows(self, spark: SparkSession, *names: str) -> list[int]:
        """As `windows` of the script would have them, of all the input at once."""
        sums: dict[int, int] = {}
        for name in names or ("in",):
            for row in spark.read.schema(SCHEMA).json(str(self.home / name)).collect():
                sums[int(row.t.timestamp()) // 300] = sums.get(int(row.t.timestamp()) // 300, 0) + row.v
        return sorted(sums.values())


def said(log: Path) -> list[str]:
    """What the script has said so far."""
    lines = log.read_text(errors="replace").splitlines()
    return [line.removeprefix("script: ") for line in lines if line.startswith("script: ")]


def await_said(driver: LocalDriver, line: str) -> None:
    eventually(lambda: line in said(driver.log) or driver.process.poll() is not None, line)
    assert line in said(driver.log), driver.tail()


def await_batch(driver: LocalDriver, uid: str, number: int) -> None:
    """Wait until a stage has committed it."""
    commit = driver.home / "checkpoints" / uid / "0" / "commits" / str(number)
    eventually(lambda: commit.exists() or driver.process.poll() is not None, f"batch {number} of {uid}")
    assert commit.exists(), driver.tail()


def await_read(driver: LocalDriver, uid: str, *folders: Path) -> None:
    """Wait until a stage has planned to read all files that are in its folders now.

    Its next boundary is behind them.
    """
    wanted = {file.as_uri() for folder in folders for file in folder.glob("[!.]*")}
    logs = driver.home / "checkpoints" / uid / "0" / "sources"

    def read() -> set[str]:
        entries = [line for f in logs.glob("*/[0-9]*") for line in f.read_text().splitlines()[1:]]
        return {json.loads(entry)["path"] for entry in entries}

    eventually(lambda: wanted <= read() or driver.process.poll() is not None, f"all input of {uid}")
    assert wanted <= read(), driver.tail()


def latest(home: Path, uid: str) -> int:
    """The latest batch that a stage has committed, -1 if there is none."""
    commits = home / "checkpoints" / uid / "0" / "commits"
    return max((int(f.name) for f in commits.glob("[0-9]*")), default=-1)


def files_below(*folders: Path) -> set[Path]:
    return {file for folder in folders for file in folder.rglob("*") if file.is_file()}
