"""A standalone Flink cluster: a job manager and a task manager, on the loopback interface only."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from dev import ports
from dev.demo.waiting import PATIENCE

T = TypeVar("T")
SLOTS = 2
HEAP = "1600m"  # of the task manager; together with RocksDB's memory about the 4 GB of our driver
# Flink on Java 17 reflects upon these packages (its own config.yaml opens them).
PACKAGES = (
    "lang", "net", "io", "nio", "lang.reflect", "text", "time", "util", "util.concurrent",
    "util.concurrent.atomic", "util.concurrent.locks",
)  # fmt: skip
JAVA_17 = [f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in PACKAGES]
ENTRY = "org.apache.flink.runtime"
LOGGING = """rootLogger.level = WARN
rootLogger.appenderRef.out.ref = out
appender.out.name = out
appender.out.type = CONSOLE
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n
"""


def configuration(home: Path, rest: int, rpc: int) -> dict[str, str]:
    """Flink's configuration of both processes.

    :param rest: port of the REST API.
    :param rpc: port on which the job manager talks to the task manager.
    """
    here = "127.0.0.1"
    return {
        "jobmanager.rpc.address": here,
        "jobmanager.bind-host": here,
        "jobmanager.rpc.port": str(rpc),
        "taskmanager.host": here,
        "taskmanager.bind-host": here,
        "rest.address": here,
        "rest.bind-address": here,
        "rest.port": str(rest),
        "io.tmp.dirs": str(home / "tmp"),
        # A task manager that no start script has sized wants all its sizes.
        "taskmanager.numberOfTaskSlots": str(SLOTS),
        "taskmanager.cpu.cores": str(float(SLOTS)),
        "taskmanager.memory.framework.heap.size": "128m",
        "taskmanager.memory.framework.off-heap.size": "128m",
        "taskmanager.memory.task.heap.size": "1472m",
        "taskmanager.memory.task.off-heap.size": "0m",
        "taskmanager.memory.network.min": "256m",
        "taskmanager.memory.network.max": "256m",
        "taskmanager.memory.managed.size": "1536m",
        "taskmanager.memory.jvm-metaspace.size": "256m",
        "taskmanager.memory.jvm-overhead.min": "256m",
        "taskmanager.memory.jvm-overhead.max": "256m",
        # The answers are as old as these intervals (ms): by default 3 and 10 s.
        "web.refresh-interval": "50",
        "metrics.fetcher.update-interval": "200",
    }


class Flink:
    """A running cluster."""

    def __init__(self, port: int, processes: dict[Path, subprocess.Popen[bytes]]) -> None:
        self.port = port
        self._processes = processes  # by their logs

    def get(self, path: str) -> Any:
        return self._call(path)

    def post(self, path: str, body: object) -> Any:
        return self._call(path, json.dumps(body).encode())

    def wait(self, fact: Callable[[], T | None], what: str) -> T:
        """Poll `fact` and return its first value that is not None.

        :raises RuntimeError: a process of the cluster has ended, or the time ran out.
        """
        deadline = time.monotonic() + PATIENCE
        while (value := fact()) is None:
            ended = [log for log, process in self._processes.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise RuntimeError(f"Flink: {what}: not reached\n" + "\n".join(map(_tail, self._processes)))
            time.sleep(0.05)
        return value

    def slots(self) -> int | None:
        """The number of free slots, or None as long as the REST API or the task manager is not up."""
        try:
            return int(self.get("/overview")["slots-available"]) or None
        except (OSError, urllib.error.URLError):
            return None

    def _call(self, path: str, body: bytes | None = None) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", body, {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            error.add_note(error.read().decode(errors="replace")[:2000])
            raise


@contextmanager
def running(home: Path, jars: list[Path]) -> Iterator[Flink]:
    """Run a cluster, and end both processes with the block, whatever ends it."""
    rest, rpc = ports.free(kept=True), ports.free(kept=True)
    (home / "tmp").mkdir(parents=True)
    lines = [f"{key}: {value}\n" for key, value in configuration(home, rest, rpc).items()]
    (home / "config.yaml").write_text("".join(lines))
    (home / "log4j.properties").write_text(LOGGING)
    processes: dict[Path, subprocess.Popen[bytes]] = {}
    try:
        for name, entry, memory in (
            ("jobmanager", f"{ENTRY}.entrypoint.StandaloneSessionClusterEntrypoint", ["-Xmx1g"]),
            ("taskmanager", f"{ENTRY}.taskexecutor.TaskManagerRunner", [f"-Xms{HEAP}", f"-Xmx{HEAP}"]),
        ):
            command = ["java", *JAVA_17, *memory, f"-Dlog4j2.configurationFile={home / 'log4j.properties'}"]
            command += ["-cp", ":".join(map(str, jars)), entry, "--configDir", str(home)]
            log = home / f"{name}.log"
            with log.open("wb") as out:
                # In sessions of their own: Ctrl-C is for us, and we end them.
                processes[log] = subprocess.Popen(
                    command, cwd=home, stdout=out, stderr=subprocess.STDOUT, start_new_session=True
                )
        flink = Flink(rest, processes)
        flink.wait(flink.slots, "the start of the cluster")
        yield flink
    finally:
        for process in processes.values():
            process.kill()
        for process in processes.values():
            process.wait()


def _tail(log: Path) -> str:
    return f"{log}:\n{log.read_text(errors='replace')[-1500:]}"
