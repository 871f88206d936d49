"""The watch over the JVM, with another process in the place of the JVM: it is stopped, goes on, and dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, Problem
from streamjob.runtime.driver.jvm_watch import JvmWatch
from streamjob.runtime.driver.status_board import StatusBoard

ANSWERS = "import sys; [print(flush=True) for _ in sys.stdin]"


class Child:
    """A process that answers, and the watch over it. A second is short."""

    def __init__(self) -> None:
        self.board = StatusBoard(DriverStatus(1, "uid-1", 1, DriverPhase.RUNNING))
        # Unbuffered: what could not be written is not written again when the pipe is closed.
        self.process = subprocess.Popen([sys.executable, "-c", ANSWERS], stdin=-1, stdout=-1, bufsize=0)
        self.answers = 0
        self.ping()
        JvmWatch(self.ping, self.process.pid, self.board, pause=0.01, second=0.01).start()

    def ping(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"\n")
        if not self.process.stdout.readline():
            raise ConnectionError
        self.answers += 1

    def warnings(self, number: int) -> tuple[Problem, ...]:
        """Those of the status, once there are so many."""
        status = self.board.status
        while len(status.warnings) != number:
            before, status = status, self.board.wait(status.version, 20)
            assert status.version > before.version, "nothing has changed for a long time"
        return status.warnings


@pytest.fixture
def child() -> Iterator[Child]:
    found = Child()
    with found.process:
        yield found
        found.process.kill()


def test_it_warns_while_the_jvm_does_not_answer_and_not_afterwards(child: Child) -> None:
    for _ in range(2):
        child.process.send_signal(signal.SIGSTOP)
        (warning,) = child.warnings(1)
        assert warning.reason == "JvmNotResponding"
        assert f"process {child.process.pid} is stopped (SIGSTOP)" in warning.message
        version = child.board.status.version
        assert child.board.wait(version, 0.5).version == version, "it is told once"
        child.process.send_signal(signal.SIGCONT)
        assert child.warnings(0) == ()
    known = child.answers
    while child.answers == known:
        os.sched_yield()


def test_of_a_jvm_that_has_died_others_tell(child: Child) -> None:
    child.process.send_signal(signal.SIGSTOP)
    child.warnings(1)
    child.process.kill()
    assert child.warnings(0) == ()
    for thread in threading.enumerate():
        if thread.name in ("streamjob-ping", "streamjob-liveness"):
            thread.join(20)
            assert not thread.is_alive()
