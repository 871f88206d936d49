"""A script that is run without Kubernetes, as from a shell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import streamjob
from dev.demo.waiting import PATIENCE
from streamjob.protocol.formats import index as indices
from streamjob.protocol.formats.index import Index
from streamjob.runtime.process.signals import SAME_KEYSTROKE

from .feeds import eventually


class Terminal:
    """One start of a script from a shell.

    :param options: of the runtime.
    :param arguments: the script's own.
    :param python: the interpreter, of an environment with another Spark.
    """

    def __init__(
        self,
        state: Path,
        script: Path,
        *options: str,
        arguments: tuple[str, ...] = (),
        python: str = sys.executable,
    ) -> None:
        self.state = state
        self._pressed = 0.0
        self.log = state.parent / f"terminal-{uuid.uuid4().hex}.log"
        source = str(Path(streamjob.__file__).parents[1])
        self.process = subprocess.Popen(
            [
                python,
                "-m",
                "streamjob.runtime",
                "--local",
                "--state",
                state,
                *options,
                str(script),
                *arguments,
            ],
            env={**os.environ, "PYTHONPATH": source, "PYSPARK_PYTHON": python},
            stdout=self.log.open("w"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def running(self, batches: int) -> Terminal:
        self.shows("streamjob: Running")
        commits = self.state / "checkpoints" / "main" / "0" / "commits"
        eventually((commits / str(batches)).exists, f"batch {batches}")
        return self

    def shows(self, *words: str) -> Terminal:
        def shown() -> bool:
            assert self.process.poll() is None or found(), self.log.read_text()
            return found()

        def found() -> bool:
            return any(all(w in line for w in words) for line in self.log.read_text().splitlines())

        eventually(shown, f"a line with {words}")
        return self

    def interrupt(self, number: int = signal.SIGINT) -> Terminal:
        """Ctrl-C: to the whole process group, as a terminal does, and not faster than a person."""
        time.sleep(max(0.0, self._pressed + 2 * SAME_KEYSTROKE - time.monotonic()))
        self._pressed = time.monotonic()
        os.killpg(self.process.pid, number)
        return self

    def ended(self) -> tuple[int, str]:
        """Exit code and what was shown."""
        return self.process.wait(timeout=PATIENCE), self.log.read_text()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def index(state: Path) -> Index:
    return indices.loads((state / "index.json").read_text(), "index.json")
