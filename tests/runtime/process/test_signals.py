"""SIGTERM in a process whose main thread is busy elsewhere."""

from __future__ import annotations

import subprocess
import sys

import pytest

from .programs import ENV, run


def test_the_callback_runs_while_the_main_thread_waits_in_c() -> None:
    # A lock acquired without a timeout is what awaitTermination comes down to.
    assert run("seen.wait()") == (0, "saved\n")


def test_the_callback_runs_while_another_library_holds_the_main_thread() -> None:
    # recv() is restarted after a signal, so a plain handler's effect would be seen only when it returns.
    code = (
        "import socket, os\n"
        "a, b = socket.socketpair()\n"
        "threading.Thread(target=lambda: (seen.wait(), b.send(b'x')), daemon=True).start()\n"
        "a.recv(1)"
    )
    assert run(code) == (0, "saved\n")


def test_more_signals_change_nothing() -> None:
    assert run("seen.wait()", signals=3) == (0, "saved\n")


# What the module takes for the time, so that two signals are as far apart as the test says, however slow the
# machine is. A person's signal comes from another process.
CLOCK = """
import subprocess, time
from types import SimpleNamespace
from streamjob.runtime.process import signals
from streamjob.runtime.process.signals import SAME_KEYSTROKE
clock = [0.0]
signals.time = SimpleNamespace(monotonic=lambda: clock[-1])
def press(name="INT"):
    subprocess.run(["kill", f"-{name}", str(os.getpid())], check=True)
"""


def test_a_keystroke_that_is_passed_on_counts_once_and_the_next_one_counts() -> None:
    """`timeout`, `uv run` and the like send it on to a process that the terminal has sent it to already."""
    blocking = (
        "again = threading.Event()\n"
        "ours.on(signal.SIGINT, seen.set, again.set)\n"
        "press(); press(); seen.wait()\n"
        "time.sleep(SAME_KEYSTROKE)\n"
        "assert not again.is_set()\n"
        "clock.append(SAME_KEYSTROKE)\n"
        "press(); assert again.wait(30)"
    )
    assert run(blocking, before=CLOCK) == (0, "saved\n")


@pytest.mark.parametrize(
    "way",
    [
        "signal.raise_signal(signal.SIGINT)",
        "os.kill(os.getpid(), signal.SIGINT)",
        "os.killpg(os.getpgrp(), signal.SIGINT)",
        "signal.pthread_kill(threading.get_ident(), signal.SIGINT)",
        "t = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)); t.start(); t.join()",
    ],
)
def test_a_signal_that_the_process_raises_itself_is_not_the_second_one_of_a_person(way: str) -> None:
    """A web server that has shut down raises again what it got. A person's second Ctrl-C still counts."""
    blocking = (
        "os.setpgid(0, 0)\n"
        "again, behind = threading.Event(), threading.Event()\n"
        "ours.on(signal.SIGINT, seen.set, again.set)\n"
        "ours.on(signal.SIGUSR1, behind.set)\n"
        "before = signal.signal(signal.SIGINT, lambda *_: theirs.set())\n"
        "press(); seen.wait(); theirs.wait()\n"
        "clock.append(10.0)\n"
        "signal.signal(signal.SIGINT, before)\n"
        f"{way}\n"
        "press('USR1'); behind.wait()\n"  # so the one before has been taken
        "[thread.join() for thread in threading.enumerate() if thread.name == 'streamjob-signal']\n"
        "print('counts:', again.is_set(), flush=True)\n"
        "clock.append(20.0)\n"
        "press(); assert again.wait(30)"
    )
    assert run(blocking, signals=0, before=CLOCK) == (0, "counts: False\nsaved\n")


def test_a_signal_that_the_process_raises_itself_counts_as_the_first() -> None:
    """A script may stop its own job."""
    blocking = "ours.on(signal.SIGINT, seen.set, theirs.set)\nsignal.raise_signal(signal.SIGINT)\nseen.wait()"
    assert run(blocking, signals=0) == (0, "saved\n")


def test_a_signal_to_another_process_is_none_to_this_one() -> None:
    """The next one of a person counts."""
    blocking = (
        "again = threading.Event()\n"
        "ours.on(signal.SIGINT, seen.set, again.set)\n"
        "press(); seen.wait()\n"
        "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "os.kill(child.pid, signal.SIGINT); child.wait()\n"
        "clock.append(10.0)\n"
        "press(); assert again.wait(30)"
    )
    assert run(blocking, signals=0, before=CLOCK) == (0, "saved\n")


@pytest.mark.parametrize("handler", ["lambda *_: theirs.set()", "signal.SIG_DFL", "signal.SIG_IGN"])
def test_whatever_handler_the_script_installs_ours_runs_and_so_does_it(handler: str) -> None:
    """Statement 15 of what a script is owed."""
    install = (
        f"wanted = {handler}; signal.signal(signal.SIGTERM, wanted); assert signal.getsignal(signal.SIGTERM) "
        "is wanted"
    )
    waits = "seen.wait(); theirs.wait()" if "theirs" in handler else "seen.wait()"
    assert run(waits, before=install) == (0, "saved\n")


def test_a_child_has_signals_of_its_own() -> None:
    """As pyspark starts its JVM: it ignores Ctrl-C, or the terminal would end Spark in mid-batch."""
    install = (
        "ours.on(signal.SIGINT, seen.set)\n"
        "import subprocess\n"
        "ignore = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "child = subprocess.Popen(['sh', '-c', 'kill -INT $$; echo alive'], preexec_fn=ignore, stdout=-1)\n"
        "assert child.communicate()[0] == b'alive\\n'"
    )
    assert run("seen.wait()", before=install) == (0, "saved\n")


def test_a_signal_to_a_child_that_has_just_been_forked_is_the_childs() -> None:
    """A pool terminates a worker that has hardly begun: the parent's job continues."""
    program = """
import os, signal, threading
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))  # is called before ours
from streamjob.runtime.process.signals import Signals
{clock}
first, second = threading.Event(), threading.Event()
ours = Signals()
ours.on(signal.SIGTERM, first.set, second.set)
child = os.fork()
if child == 0:
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM, "the child lives on"
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set(), "the parent does not hear signals any more"
time.sleep(SAME_KEYSTROKE)
clock.append(SAME_KEYSTROKE)
press("TERM")
first.wait()
print("told twice" if second.wait(SAME_KEYSTROKE) else "told once")
"""
    done = subprocess.run(
        [sys.executable, "-c", program.format(clock=CLOCK)],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
        env=ENV,
    )
    assert (done.stdout, done.stderr) == ("told once\n", "")


def test_a_script_may_use_our_signal_for_what_it_wants() -> None:
    """SIGURG says that a connection has urgent data."""
    install = (
        "wanted = lambda *_: theirs.set()\n"
        "signal.signal(signal.SIGURG, wanted)\n"
        "assert signal.getsignal(signal.SIGURG) is wanted\n"
        "os.kill(os.getpid(), signal.SIGURG)"
    )
    assert run("theirs.wait()", signals=0, before=install) == (0, "saved\n")
