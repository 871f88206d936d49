"""Run our own long commands, such as the build of the images, and show their output while they run."""

import subprocess
import time
from pathlib import Path

from dev.cluster.layout import REPOSITORY
from dev.demo.console import Console
from dev.demo.waiting import Failure, until

QUIET_FOR = 30.0  # seconds without output, after which we report that the command is still running
LIMIT = 3600.0


def stream(console: Console, *command: str) -> None:
    """Run a long command and show its progress, line by line.

    :raises Failure: the command failed; the message has its last line.
    """
    log = REPOSITORY / ".cache" / "demo.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=REPOSITORY)
        try:
            follower = _Follower(log, console)
            until(lambda: follower.ended(process), " ".join(command[1:]), timeout=LIMIT)
        finally:
            process.terminate()
            process.wait()
    follower.look()
    if process.returncode:
        raise Failure(
            f"`{' '.join(command[1:])}` failed ({process.returncode}): {follower.last}", f"Its log: {log}"
        )


class _Follower:
    """Follows a growing log file, and shows those of its lines that report a finished step."""

    def __init__(self, log: Path, console: Console) -> None:
        self._file = log.open()
        self._console = console
        self._partial = ""
        self._spoke = time.monotonic()
        self.last = ""

    def ended(self, process: "subprocess.Popen[bytes]") -> bool:
        self.look()
        if time.monotonic() - self._spoke > QUIET_FOR:
            self._say(f"still at it (what it does: {self._file.name})")
        return process.poll() is not None

    def _say(self, text: str) -> None:
        self._console.saw(text)
        self._spoke = time.monotonic()

    def look(self) -> None:
        *lines, self._partial = (self._partial + self._file.read()).split("\n")
        for line in lines:
            text = " ".join(line.split())
            if text:
                self.last = text
            if line.startswith("  ") and text.endswith(" s"):
                self._say(text)
