"""One start of a script in a process of its own, plain or under the runtime, and what became of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import streamjob
from streamjob.jvm import class_archive

from .header import Script

PATIENCE = 600.0  # seconds in which a start of a script has to come to its end
LEFT_BECAUSE = "the driver exits:"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
# As in tests/spark: a JVM that is there sooner.
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djdk.lang.Process.launchMechanism=VFORK"
NOISE = re.compile(
    r"NOTE: Picked up|WARNING: Using incubator|Using Spark's default log4j|Setting default log"
    r"|To adjust logging"
    r"|\d\d/\d\d/\d\d [0-9:]+ WARN "
)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Home:
    """The folders of one job."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.input, self.output, self.work = folder / "in", folder / "out", folder / "work"
        self.work.mkdir(parents=True)
        self.output.mkdir()

    def arguments(self, script: Script) -> list[str]:
        return [str(script.path), str(self.input), str(self.output), *script.arguments]

    def neutral(self, text: str) -> str:
        """Without what differs between two homes."""
        return _UUID.sub("UUID", text.replace(str(self.folder), "HOME"))


def environment() -> dict[str, str]:
    """For a script's process: Spark's settings, as an image or a cluster brings them."""
    shared = class_archive.settings().get("spark.driver.defaultJavaOptions", "")
    settings = " ".join(f"--conf {key}={value}" for key, value in SETTINGS.items())
    return {
        "JDK_JAVA_OPTIONS": f"{QUICK} {shared}",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell",
        "PYTHONUNBUFFERED": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@dataclass(frozen=True)
class Ended:
    """:param code: None if it did not come to its end and was killed."""

    code: int | None
    stdout: list[str]
    stderr: str
    seconds: float

    @property
    def exception(self) -> str:
        """What the last traceback ends with, "" if there is none."""
        blocks = re.split(r"^Traceback \(most recent call last\):\n", self.stderr, flags=re.MULTILINE)[1:]
        lines = blocks[-1].splitlines() if blocks else []
        return next((line for line in lines if line and not line.startswith(" ")), "")

    def told(self) -> str:
        """The ends of what it said, for a person."""
        stderr = [line for line in self.stderr.splitlines() if not NOISE.match(line)]
        return "\n".join(["--- stdout", *self.stdout[-15:], "--- stderr", *stderr[-25:]])


class Process:
    """In a process group of its own."""

    def __init__(self, home: Home, name: str, command: list[str], variables: Mapping[str, str]) -> None:
        self._home = home
        self._out, self._err = home.folder / f"{name}.out", home.folder / f"{name}.err"
        self._began = time.monotonic()
        inherited = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, *command],
                env={**inherited, **environment(), **variables},
                cwd=home.work,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def says(self, text: str) -> None:
        """Wait until it has written that, or has ended."""
        deadline = time.monotonic() + PATIENCE
        while text not in self._out.read_text() and self.alive() and time.monotonic() < deadline:
            time.sleep(0.01)

    def alive(self) -> bool:
        return self.process.poll() is None

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within the time."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def interrupt(self) -> None:
        """Ctrl-C: to the whole process group, as a terminal does."""
        os.killpg(self.process.pid, signal.SIGINT)

    def terminate(self) -> None:
        """As systemd and `docker stop` do."""
        self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """The process, its JVM and all else that it has started and that stayed in its group."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def ended(self, patience: float = PATIENCE) -> Ended:
        code = self.process.wait() if self.wait(patience) else None
        self.kill()  # nothing of it stays behind
        return Ended(
            code,
            self._home.neutral(self._out.read_text(errors="replace")).splitlines(),
            self._home.neutral(self._err.read_text(errors="replace")),
            time.monotonic() - self._began,
        )


@contextmanager
def plain(script: Script, home: Home) -> Iterator[Process]:
    """`python script`"""
    yield from _running(Process(home, "plain", home.arguments(script), {}))


@contextmanager
def local(script: Script, home: Home, number: int, *options: str) -> Iterator[Process]:
    """`python -m streamjob.runtime --local script`, the same job each time.

    :param number: of the start.
    """
    state = ["--local", "--state", str(home.folder / "state"), *options]
    source = str(Path(streamjob.__file__).parents[1])
    command = ["-m", "streamjob.runtime", *state, *home.arguments(script)]
    yield from _running(Process(home, f"start-{number}", command, {"PYTHONPATH": source}))


def _running(process: Process) -> Iterator[Process]:
    try:
        yield process
    finally:
        process.kill()
