"""Savepoints copied by real executors: `local-cluster`, which has a JVM for each.

Prints what came of it, a line of JSON each.

Arguments: a folder.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from streamjob.protocol.errors import StreamJobError
from streamjob.runtime.savepoints.layout import verify_savepoint
from streamjob.storage import executor_copy
from streamjob.storage.hadoop import CopiedFile, HadoopFiles
from tests.runtime.queries import Query

PATIENCE = 300.0


class Files(HadoopFiles):
    """Knows what the driver has copied by itself."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self.copied: list[str] = []

    def copy(self, source: str, target: str) -> CopiedFile:
        self.copied.append(source)
        return super().copy(source, target)


def main(folder: str) -> None:
    home = Path(folder)
    executor_copy.ENOUGH, executor_copy.ALONE = 1, PATIENCE
    builder = SparkSession.builder.master("local-cluster[2,1,512]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.executor.memory", "512m").config("spark.driver.host", "127.0.0.1")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    spark.sparkContext.parallelize(range(2), 2).count()  # an executor is there
    say(savepoint=savepoint(spark, home / "savepoint"))
    say(given_up=given_up(spark, home / "given-up"))
    say(killed=killed(spark, home / "killed"))
    say(stopped=stopped(spark, home / "stopped"))


def savepoint(spark: SparkSession, home: Path) -> Any:
    files = Files(spark)
    query = Query(files, home, partitions=5)
    query.batch()
    query.batch()
    manifest = query.save("one")
    return {
        "broken": verify_savepoint(files, query.uri("one")),
        "state": sum(1 for e in manifest.files if e.shared),
        "by the driver": sum(1 for uri in files.copied if uri.endswith(".delta")),
        "left": len(query.shared()) - sum(1 for e in manifest.files if e.shared),
    }


def given_up(spark: SparkSession, home: Path) -> Any:
    """While a task waits for its source."""

    def check() -> None:
        if readers(pipe):
            raise StreamJobError("nobody waits for it any more")

    pipe = Pipe(home)
    try:
        copy(Files(spark), home, check)
    except StreamJobError as e:
        wait_for(lambda: not spark.sparkContext.statusTracker().getActiveJobsIds())  # Spark ends it behind us
        return e.message
    return "nothing was raised"


def killed(spark: SparkSession, home: Path) -> Any:
    """An executor, in the middle of its task; the next one that is given the task gets
    what the file holds.
    """

    def kill_and_feed() -> None:
        first = wait_for(lambda: readers(pipe))
        os.kill(parent(parent(first[0])), signal.SIGKILL)
        wait_for(lambda: not set(readers(pipe)) & set(first))
        wait_for(lambda: readers(pipe))
        os.write(pipe.end, b"content")
        os.close(pipe.end)

    pipe = Pipe(home)
    killer = threading.Thread(target=kill_and_feed)
    killer.start()
    done = copy(Files(spark), home, lambda: None)
    killer.join()
    return {
        "done": [(d.size, d.sha256) for d in done.values()],
        "targets": sorted(p.read_bytes().decode() for p in (home / "shared").glob("target*")),
    }


def stopped(spark: SparkSession, home: Path) -> Any:
    """By the script, at just this moment."""

    def check() -> None:
        if readers(pipe):
            spark.stop()

    pipe = Pipe(home)
    files = Files(spark)
    return {"done": len(copy(files, home, check)), "again": len(copy(files, home, lambda: None))}


class Pipe:
    """A source whose readers wait until something is written to `end`, and for more until that is closed."""

    def __init__(self, home: Path) -> None:
        home.mkdir()
        (home / "begun.json").write_text(str(home))
        self.path = home / "source"
        os.mkfifo(self.path)
        self.end = os.open(self.path, os.O_RDWR)


def copy(files: HadoopFiles, home: Path, check: Callable[[], None]) -> dict[str, CopiedFile]:
    wanted = {f"file:{home}/source": (f"file:{home}/shared/target", 7)}
    return executor_copy.copy(files, wanted, f"file:{home}/begun.json", check)


def readers(pipe: Pipe) -> list[int]:
    """Other processes that have it open."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):  # it has ended
            if process.name.isdigit() and pipe.path in {fd.readlink() for fd in (process / "fd").iterdir()}:
                found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def wait_for(fact: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE
    while not (found := fact()):
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.05)
    return found


def say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
