"""What another thread raises in the main thread: where it arrives, and what comes to its end first."""

from __future__ import annotations

import pytest

from .programs import RAISES, run


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
        "done = False\n"
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
    assert run(blocking, signals=0, before=RAISES) == (0, f"{says}saved\n")


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
        "try:\n"
        "    inside.set()\n"
        "    while True: pass\n"
        "except KeyError as e:\n"
        "    names = [frame.name for frame in traceback.extract_tb(e.__traceback__)]\n"
        "    print(len(spared), names.count('_handle'), flush=True)"
    )
    assert run(blocking, signals=0, before=RAISES) == (0, "3 1\nsaved\n")


def test_it_is_raised_although_the_script_handles_a_signal_meanwhile() -> None:
    """A signal of the script comes while ours is handled, and its handler takes longer than we try."""
    blocking = (
        "import time\n"
        "from streamjob.runtime.process import signals as module\n"
        "module.RAISED, came = 0.3, []\n"
        "def theirs(*_):\n"
        "    came.append(True)\n"
        "    while True: time.sleep(0.01)\n"
        "signal.signal(signal.SIGTERM, theirs)\n"
        "look = module.may_be_left\n"
        "def interrupted(frame):\n"
        "    if not came: os.kill(os.getpid(), signal.SIGTERM)\n"
        "    return look(frame)\n"
        "module.may_be_left = interrupted\n"
        "try:\n"
        "    inside.set()\n"
        "    while True: pass\n"
        "except KeyError:\n"
        "    print('raised', came, flush=True)"
    )
    assert run(blocking, signals=0, before=RAISES) == (0, "raised [True]\nsaved\n")


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
