"""A JVM that does not answer, in words; the state of a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from streamjob.jvm.liveness import (
    LIMIT,
    LIMIT_IF_STOPPED,
    ProcessLook,
    end_if_stopped,
    look,
    not_responding,
)

SINCE = "2026-01-02T03:04:05Z"
BEFORE = ProcessLook(71, "S", 10.0)
TOLD = f"the driver's JVM has not answered since {SINCE}, so no batch can run: "


@pytest.mark.parametrize(
    ("now", "does", "remedy"),
    [
        (ProcessLook(71, "T", 10.0), "process 71 is stopped (SIGSTOP)", "`kill -CONT 71` in the driver"),
        (ProcessLook(71, "t", 10.0), "process 71 is stopped by a debugger", "`kill -CONT 71`"),
        (ProcessLook(71, "S", 10.0 + LIMIT), "process 71 is busy, as with a garbage", "spec.driver.memory"),
        (ProcessLook(71, "S", 10.1), "its process may be paused, or may wait for a disk", "See its node"),
        (None, "its process may be paused, or may wait for a disk", "See its node"),
    ],
)
def test_it_says_since_when_what_the_process_does_and_whose_move_it_is(
    now: ProcessLook | None, does: str, remedy: str
) -> None:
    found = not_responding(LIMIT, SINCE, BEFORE, now)
    assert found is not None
    assert found.reason == "JvmNotResponding"
    assert found.message.startswith(TOLD + does)
    assert remedy in found.remedy


def test_a_jvm_that_answers_slowly_is_no_news() -> None:
    assert not_responding(LIMIT - 1, SINCE, BEFORE, ProcessLook(71, "S", 39.0)) is None
    assert not_responding(LIMIT - 1, SINCE, BEFORE, None) is None


def test_one_that_is_stopped_is_told_soon() -> None:
    stopped = BEFORE._replace(state="T")
    assert not_responding(LIMIT_IF_STOPPED - 1, SINCE, BEFORE, stopped) is None
    assert not_responding(LIMIT_IF_STOPPED, SINCE, BEFORE, stopped) is not None


def test_a_look_at_a_process() -> None:
    """Its name is of its own choice."""
    rename = "open('/proc/self/comm', 'w').write('a) S 9')"
    words = [sys.executable, "-c", f"{rename}; print(flush=True); input()"]
    child = subprocess.Popen(words, stdin=-1, stdout=-1)
    assert child.stdout is not None
    with child:
        child.stdout.readline()
        os.kill(child.pid, signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        stopped = look(child.pid)
        child.kill()
    assert stopped is not None
    assert (stopped.pid, stopped.state) == (child.pid, "T")
    assert look(child.pid) is None
    assert look(None) is None


def test_none_that_is_stopped_outlives_a_cancel() -> None:
    """One that runs ends by itself: its pipe breaks."""
    words = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    runs, stopped = (subprocess.Popen(words, stdin=-1) for _ in range(2))
    with runs, stopped:
        os.kill(stopped.pid, signal.SIGSTOP)
        os.waitpid(stopped.pid, os.WUNTRACED)
        for pid in (runs.pid, stopped.pid, None):
            end_if_stopped(pid)
        assert stopped.wait(20) == -signal.SIGKILL
        assert runs.stdin is not None
        runs.stdin.close()
        assert runs.wait(20) == 0


def test_it_counts_the_processor_time() -> None:
    before = look(os.getpid())
    assert before is not None
    until = time.process_time() + 0.1
    while time.process_time() < until:
        pass
    after = look(os.getpid())
    assert after is not None
    assert after.cpu > before.cpu
