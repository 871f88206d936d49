"""Starts the driver's JVM before Python has imported pyspark and the runtime: each takes about a second, and
they do not need each other.

The script has its part in how a JVM is started: `spark.driver.memory` of its builder is an option of the
command, `os.environ` is the environment, and relative paths count from the working directory. So pyspark's
`launch_gateway` runs as before. Where it would start the process that runs already, it gets that one.
Otherwise that one, which has done nothing yet, is ended, and pyspark starts its own (ADR 47).
"""

from __future__ import annotations

import atexit
import logging
import os
import resource
import shlex
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...jvm.class_archive import SUBMIT_ARGUMENTS
from ...jvm.spark_home import CLASSIC, CONNECTION, comes_up, spark_home

log = logging.getLogger("streamjob")


class JvmAhead:
    """A JVM that listens for pyspark, or is about to, or None where it could not be started."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """:param folder: it stays as long as this process."""
        self.folder = folder
        self._owner = os.getpid()
        self._started = 0
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self._end)
        home = spark_home()
        if home is None:
            return
        arguments = shlex.split(environment.get(SUBMIT_ARGUMENTS, "pyspark-shell"))
        command = [str(home / "bin/spark-submit"), *arguments]
        try:
            # As pyspark does it: the JVM ends when the pipe breaks, and Ctrl-C is not for it.
            self._start(
                command,
                {**environment, CLASSIC: "0"},
                stdin=subprocess.PIPE,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # there are no threads yet
            )
        except OSError as e:  # pyspark will say it of its own
            log.debug("no JVM was started ahead: %s", e)

    def _start(
        self, command: Sequence[str], environment: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[bytes]:
        # It says in our folder where it listens. If the script is ended meanwhile, pyspark deletes the folder
        # of its own, and a JVM that cannot write there never ends.
        self._started += 1
        self._connection = self.folder / f"connection-{self._started}"
        self._command, self._inherited = list(command), inherited()
        self._environment = {**environment, CONNECTION: str(self._connection)}
        self._process = subprocess.Popen(command, env=self._environment, **options)
        return self._process

    def lend(self) -> None:
        """Let pyspark have it, in this process, when it starts its JVM."""
        from pyspark import java_gateway  # noqa: PLC0415  after the JVM's start

        pyspark: Any = java_gateway  # what it imports is not its own
        pyspark.Popen = self._instead

    def _instead(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        if os.getpid() != self._owner:  # a forked process makes a session of its own, as under Python
            return subprocess.Popen(command, **options)
        environment = options.pop("env")
        process = self._fitting(command, environment)
        if process is None:
            process = self._start(command, environment, **options)
            self._connect(process, environment)
        # If the script is ended before this line, nobody else has the process.
        self._process = None
        return process

    def _fitting(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes] | None:
        """The process that runs already. None if it does not do, in which case it is ended."""
        process = self._process
        if process is None:
            return None
        other = self._differs(command, environment)
        if other is None and self._connect(process, environment):
            return process
        why = f"the script decides about {other}" if other else f"it ended with code {process.poll()}"
        log.info("the JVM that was started ahead is replaced: %s", why)
        _kill(process)
        self._process = None
        return None

    def _differs(self, command: Sequence[str], environment: Mapping[str, str]) -> str | None:
        now = inherited()
        return (
            differs(self._command, command)
            or differs_in(self._environment, environment)
            or next((what for what, value in self._inherited.items() if now[what] != value), None)
        )

    def _connect(self, process: subprocess.Popen[bytes], environment: Mapping[str, str]) -> bool:
        """Wait until the JVM has said where it listens, and put that where pyspark looks for it.

        :returns: whether it listens.
        """
        if not comes_up(process, self._connection):
            return False
        Path(environment[CONNECTION]).write_bytes(self._connection.read_bytes())
        return True

    def _end(self) -> None:
        if self._process is not None and os.getpid() == self._owner:
            _kill(self._process)


def differs(ours: Sequence[str], wanted: Sequence[str]) -> str | None:
    """What of a spark-submit command decides about the JVM and is not in ours; None if ours does as well.

    pyspark puts the settings of the script's builder before the other arguments, and sets them once more in
    the JVM's SparkConf. Only those are left out that nobody has read by then.
    """
    program, rest = wanted[0], list(wanted[1:])
    settings: list[tuple[str, str]] = []
    while len(rest) > 1 and rest[0] == "--conf" and [program, *rest] != list(ours):
        key, _, value = rest[1].partition("=")
        settings.append((key, value))
        rest = rest[2:]
    if Path(program).resolve() != Path(ours[0]).resolve() or rest != list(ours[1:]):
        return "Spark's folder or PYSPARK_SUBMIT_ARGS"
    return next((key for key, value in settings if not _is_read_later(key)), None)


def _is_read_later(key: str) -> bool:
    return key == "spark.app.name" or key.startswith("spark.sql.")


def differs_in(ours: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    """A variable of the environment that is not the same; None if there is none."""
    keys = sorted({*ours, *wanted} - {CONNECTION, CLASSIC})
    return next((f"the variable {key}" for key in keys if ours.get(key) != wanted.get(key)), None)


def inherited() -> dict[str, object]:
    """What else a process has from the one that starts it, and a script may change."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    limits = [getattr(resource, name) for name in sorted(dir(resource)) if name.startswith("RLIMIT_")]
    return {
        "the working directory": _found(os.getcwd),
        "the umask": [line for line in lines if line.startswith("Umask:")],
        "the user": (os.getuid(), os.getgid(), os.getgroups()),
        "standard output": _found(lambda: os.fstat(1)[:3]),
        "standard error": _found(lambda: os.fstat(2)[:3]),
        "limits": [resource.getrlimit(limit) for limit in limits],
    }


def _found(look: Callable[[], object]) -> object:
    """None where there is nothing: a folder that was deleted, an output that was closed."""
    try:
        return look()
    except OSError:
        return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
