"""SIGTERM in a process whose main thread is busy elsewhere; a real process gets a real signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import streamjob

PROGRAM = """
import os, sys, threading
import signal
from streamjob.runtime.process.signals import Signals
seen, theirs = threading.Event(), threading.Event()
ours = Signals()
ours.on(signal.SIGTERM, seen.set)
{before}
print("ready", flush=True)
{blocking}
print("saved", flush=True)
os._exit(0)  # as the runtime leaves: in an orderly exit Python gives SIGTERM its default action back
"""


ENV = {**os.environ, "PYTHONPATH": str(Path(streamjob.__file__).parents[1])}


def run(blocking: str, signals: int = 1, before: str = "") -> tuple[int, str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(blocking=blocking, before=before)],
        stdout=subprocess.PIPE,
        text=True,
        env=ENV,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        for _ in range(signals):
            process.send_signal(signal.SIGTERM)
        out = process.stdout.read()  # communicate() would lose what came with the first line
        return process.wait(timeout=300), out
    finally:
        process.kill()


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
# machine is.
CLOCK = """
import time
from types import SimpleNamespace
from streamjob.runtime.process import signals
from streamjob.runtime.process.signals import SAME_KEYSTROKE
clock = [0.0]
signals.time = SimpleNamespace(monotonic=lambda: clock[-1])
"""


def test_a_keystroke_that_is_passed_on_counts_once_and_the_next_one_counts() -> None:
    """`timeout`, `uv run` and the like send it on to a process that the terminal has sent it to already."""
    blocking = (
        "again = threading.Event()\n"
        "ours.on(signal.SIGINT, seen.set, again.set)\n"
        "press = lambda: os.kill(os.getpid(), signal.SIGINT)\n"
        "press(); press(); seen.wait()\n"
        "time.sleep(SAME_KEYSTROKE)\n"
        "assert not again.is_set()\n"
        "clock.append(SAME_KEYSTROKE)\n"
        "press(); again.wait()"
    )
    assert run(blocking, before=CLOCK) == (0, "saved\n")


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
os.kill(os.getpid(), signal.SIGTERM)
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


def test_an_error_is_raised_in_the_main_thread_once_and_is_no_signal() -> None:
    """The main thread waits in C for what another thread would do on its way out."""
    blocking = (
        "import signal\n"
        "inside, first = threading.Event(), threading.Event()\n"
        "def end():\n"
        "    inside.wait()\n"
        "    assert ours.raise_in_main_thread(lambda: None), 'the main thread has come to it'\n"
        "    first.set()\n"
        "    assert ours.raise_in_main_thread(KeyError)\n"
        "threading.Thread(target=end, daemon=True).start()\n"
        "try:\n"
        "    inside.set()\n"
        "    threading.Event().wait()\n"
        "except KeyError:\n"
        "    print('raised', first.is_set(), seen.is_set(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "seen.wait()"
    )
    assert run(blocking, signals=0) == (0, "raised True False\nsaved\n")


def test_a_script_that_must_end_is_ended_in_its_main_thread_and_its_finally_runs() -> None:
    blocking = (
        "inside = threading.Event()\n"
        "def end():\n"
        "    seen.wait(), inside.wait(), ours.raise_in_main_thread(lambda: SystemExit(5))\n"
        "threading.Thread(target=end, daemon=True).start()\n"
        "try:\n"
        "    inside.set()\n"
        "    threading.Event().wait()\n"
        "finally:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"  # as `timeout` and the like, which repeat a signal
        "    print('finally', flush=True)"
    )
    assert run(blocking) == (5, "finally\n")


def test_what_was_to_be_raised_is_raised_when_the_main_thread_comes_out_of_c() -> None:
    """However long it was there, and although nobody waits for that any more."""
    blocking = (
        "import hashlib\n"
        "from streamjob.runtime.process import signals as module\n"
        "module.RAISED = 0.1\n"
        "inside, came = threading.Event(), []\n"
        "def end():\n"
        "    inside.wait()\n"
        "    came.append(ours.raise_in_main_thread(KeyError))\n"
        "threading.Thread(target=end, daemon=True).start()\n"
        "try:\n"
        "    inside.set()\n"
        "    for _ in range(100):\n"
        "        if not came:\n"
        "            hashlib.pbkdf2_hmac('sha256', b'', b'', 5_000_000)\n"
        "except KeyError:\n"
        "    print('raised', came, flush=True)"
    )
    assert run(blocking, signals=0) == (0, "raised [False]\nsaved\n")


@pytest.mark.parametrize(
    ("patience", "work", "says"),
    [
        pytest.param("1e9", "10.0.0.0/13", "raised in the script, done: True\n", id="that it ends"),
        pytest.param("0.1", "0.0.0.0/0", "raised in ipaddress, done: False\n", id="that takes for ever"),
    ],
)
def test_a_library_ends_its_work_first_if_that_does_not_take_long(
    patience: str, work: str, says: str
) -> None:
    """It may just have acquired a lock, which would stay locked."""
    blocking = (
        "import collections, ipaddress, traceback\n"
        "from streamjob.runtime.process import signals as module\n"
        f"module.PATIENCE = {patience}\n"
        "inside, done = threading.Event(), False\n"
        "def end():\n"
        "    inside.wait()\n"
        "    ours.raise_in_main_thread(KeyError)\n"
        "threading.Thread(target=end, daemon=True).start()\n"
        "try:\n"
        f"    network = ipaddress.ip_network('{work}')\n"
        "    inside.set()\n"
        "    collections.deque(network, maxlen=0)\n"
        "    done = True\n"
        "    while True: pass\n"
        "except KeyError as e:\n"
        "    files = [frame.filename for frame in traceback.extract_tb(e.__traceback__)]\n"
        "    place = 'ipaddress' if any(f.endswith('ipaddress.py') for f in files) else 'the script'\n"
        "    print(f'raised in {place}, done: {done}', flush=True)"
    )
    assert run(blocking, signals=0) == (0, f"{says}saved\n")


def test_a_signal_of_ours_that_comes_while_the_one_before_is_handled_raises_nothing() -> None:
    """The one before may be about to spare the place that the main thread is at."""
    blocking = (
        "import time, traceback\n"
        "from streamjob.runtime.driver.script import interruption\n"
        "holds, spared = interruption._holds, []\n"
        "def slow(frame, codes):\n"
        "    if len(spared) < 3:\n"
        "        spared.append(time.sleep(0.3))\n"
        "        return True\n"
        "    return holds(frame, codes)\n"
        "interruption._holds = slow\n"
        "inside = threading.Event()\n"
        "def end():\n"
        "    inside.wait()\n"
        "    ours.raise_in_main_thread(KeyError)\n"
        "threading.Thread(target=end, daemon=True).start()\n"
        "try:\n"
        "    inside.set()\n"
        "    while True: pass\n"
        "except KeyError as e:\n"
        "    names = [frame.name for frame in traceback.extract_tb(e.__traceback__)]\n"
        "    print(len(spared), names.count('_handle'), flush=True)"
    )
    assert run(blocking, signals=0) == (0, "3 1\nsaved\n")


def test_it_is_raised_although_the_script_handles_a_signal_meanwhile() -> None:
    """A signal of the script comes while ours is handled, and its handler takes longer than we try."""
    blocking = (
        "import time\n"
        "from streamjob.runtime.process import signals as module\n"
        "module.RAISED, came, inside = 0.3, [], threading.Event()\n"
        "def theirs(*_):\n"
        "    came.append(True)\n"
        "    while True: time.sleep(0.01)\n"
        "signal.signal(signal.SIGTERM, theirs)\n"
        "look = module.may_be_left\n"
        "def interrupted(frame):\n"
        "    if not came: os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return look(frame)\n"
        "module.may_be_left = interrupted\n"
        "def end():\n"
        "    inside.wait()\n"
        "    ours.raise_in_main_thread(KeyError)\n"
        "threading.Thread(target=end, daemon=True).start()\n"
        "try:\n"
        "    inside.set()\n"
        "    while True: pass\n"
        "except KeyError:\n"
        "    print('raised', came, flush=True)"
    )
    assert run(blocking, signals=0) == (0, "raised [True]\nsaved\n")


def test_what_is_to_be_raised_while_the_main_thread_forks_is_raised_behind_that() -> None:
    """Python drops what leaves a function of `os.register_at_fork`."""
    blocking = (
        "import signal\n"
        "ours._block()\n"
        "threading.Thread(target=lambda: ours.raise_in_main_thread(KeyError), daemon=True).start()\n"
        "while signal.SIGURG not in signal.sigpending(): pass\n"
        "try:\n"
        "    try:\n"
        "        ours._unblock()\n"
        "    except KeyError:\n"
        "        print('dropped', flush=True)\n"
        "    threading.Event().wait()\n"
        "except KeyError:\n"
        "    print('raised', flush=True)"
    )
    assert run(blocking, signals=0) == (0, "raised\nsaved\n")


def test_a_script_may_use_our_signal_for_what_it_wants() -> None:
    """SIGURG says that a connection has urgent data."""
    install = (
        "wanted = lambda *_: theirs.set()\n"
        "signal.signal(signal.SIGURG, wanted)\n"
        "assert signal.getsignal(signal.SIGURG) is wanted\n"
        "os.kill(os.getpid(), signal.SIGURG)"
    )
    assert run("theirs.wait()", signals=0, before=install) == (0, "saved\n")


# In each, the main thread is where an exception must not simply be raised.
DELETED = """
class Slow:
    def __del__(self):
        there.set()
        while not told.wait(0.01): pass
        for _ in range(1_000_000): pass
        print("it is deleted", flush=True)
Slow()
while True: time.sleep(0.01)
"""
JOINED = """
def work():
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name not in ("_wait_for_tstate_lock", "join"): pass
    there.set()
    end.wait()
    ended.set()
worker = threading.Thread(target=work)
worker.start()
try:
    worker.join()
finally:
    end.set()
    worker.join()
    print(f"the worker has ended: {ended.is_set()}", flush=True)
"""


@pytest.mark.parametrize(
    ("where", "says"),
    [
        pytest.param(DELETED, "it is deleted\n", id="deleted"),
        pytest.param(JOINED, "the worker has ended: True\n", id="joined"),
    ],
)
def test_what_ends_the_script_arrives_wherever_its_main_thread_is(where: str, says: str) -> None:
    """Python drops what leaves a `__del__`, and forgets a thread whose join is left."""
    before = (
        "import time\n"
        "from streamjob.runtime.driver.script.job_stopped import JobStopped, end_joiners\n"
        "end_joiners()\n"
        "there, told, end, ended = (threading.Event() for _ in range(4))\n"
        "def stop():\n"
        "    there.wait()\n"
        "    told.set()\n"
        "    ours.raise_in_main_thread(JobStopped)\n"
        "threading.Thread(target=stop, daemon=True).start()\n"
    )
    body = "\n".join(f"    {line}" for line in where.strip().splitlines())
    blocking = f"try:\n{body}\nexcept JobStopped:\n    print('it arrived', flush=True)"
    assert run(blocking, signals=0, before=before) == (0, f"{says}it arrived\nsaved\n")
