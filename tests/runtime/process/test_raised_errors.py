"""What another thread raises in the main thread, and where it arrives."""

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
        "    assert ours.raise_in_main_thread(lambda: None, 60), 'the main thread has come to it'\n"
        "    first.set()\n"
        "    assert ours.raise_in_main_thread(KeyError, 60)\n"
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


def test_what_was_to_be_raised_is_raised_when_the_main_thread_comes_out_of_c() -> None:
    """However long it was there, and although nobody waits for that any more."""
    blocking = (
        "import hashlib\n"
        "inside, came = threading.Event(), []\n"
        "def end():\n"
        "    inside.wait()\n"
        "    came.append(ours.raise_in_main_thread(KeyError, 0.1))\n"
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


def test_it_is_raised_in_a_handler_of_the_script() -> None:
    blocking = (
        "import time\n"
        "def theirs(*_):\n"
        "    inside.set()\n"
        "    while True: time.sleep(0.01)\n"
        "signal.signal(signal.SIGTERM, theirs)\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "except KeyError:\n"
        "    print('raised', flush=True)"
    )
    assert run(blocking, signals=0, before=RAISES) == (0, "raised\nsaved\n")


# Where the runtime or `logging` may have acquired a lock just then, the error waits.
AS_SCRIPT = """
import logging, time
from types import FrameType
from streamjob.runtime.driver import threads
from streamjob.runtime.driver.script import interruption
spared, look = [], interruption.may_be_left
def may_be_left(frame):
    may = look(frame)
    while not may and frame.f_code.co_name not in ("script_threads", "emit"):
        frame = frame.f_back
    spared.append(None if may else frame.f_code.co_name)
    return may
sys.modules["streamjob.runtime.process.signals"].may_be_left = may_be_left
"""
RUNTIME = """
def enumerate():
    inside.set()
    while not spared: pass
    return []
threading.enumerate = enumerate
threads.script_threads()
"""
LOG = """
class Handler(logging.Handler):
    def emit(self, record):
        inside.set()
        while not spared: pass
class Held(Handler):
    def handle(self, record):
        with self.lock: logging.Handler.emit.__get__(self)  # what it is called by is logging's
        return super().handle(record)
logging.getLogger("script").addHandler(Held())
logging.getLogger("script").error("words")
"""


@pytest.mark.parametrize(
    ("where", "name"),
    [pytest.param(RUNTIME, "script_threads", id="runtime"), pytest.param(LOG, "emit", id="log")],
)
def test_a_lock_of_the_runtime_and_of_the_log_is_never_left_held(where: str, name: str) -> None:
    body = "\n".join(f"    {line}" for line in where.strip().splitlines())
    blocking = (
        "@interruption.calls_script\n"
        f"def script():\n{body}\n"
        "    while True: time.sleep(0.01)\n"
        "try:\n"
        "    script()\n"
        "except KeyError:\n"
        "    print('raised behind', spared[0], spared[-1], flush=True)"
    )
    assert run(blocking, signals=0, before=AS_SCRIPT + RAISES) == (0, f"raised behind {name} None\nsaved\n")
