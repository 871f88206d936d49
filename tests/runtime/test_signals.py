"""SIGTERM in a process whose main thread is busy elsewhere; a real process gets a real signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import streamjob

PROGRAM = """
import os, sys, threading
from streamjob.runtime.signals import on_sigterm
seen = threading.Event()
on_sigterm(seen.set)
print("ready", flush=True)
{blocking}
print("saved", flush=True)
os._exit(0)  # as the runtime leaves: in an orderly exit Python gives SIGTERM its default action back
"""


def run(blocking: str, signals: int = 1) -> tuple[int, str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(blocking=blocking)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(streamjob.__file__).parents[1])},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    for _ in range(signals):
        process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=120)
    return process.returncode, out


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


def test_in_local_mode_no_thread_takes_the_interrupt_from_the_one_that_waits_for_it(tmp_path: Path) -> None:
    """Also none of numpy's, which comes with pyspark."""
    script = tmp_path / "app.py"
    script.write_text(
        "import os, signal\n"
        "for task in os.listdir('/proc/self/task'):\n"
        "    status = dict(l.split(':', 1) for l in open(f'/proc/self/task/{task}/status') if ':' in l)\n"
        "    blocked = int(status['SigBlk'], 16) & 1 << signal.SIGINT - 1\n"
        "    print('blocked' if blocked else 'open', flush=True)\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "streamjob.runtime",
            "--local",
            "--state",
            str(tmp_path / "state"),
            str(script),
        ],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(streamjob.__file__).parents[1])},
        timeout=120,
        check=False,
    )
    threads = [line for line in done.stdout.splitlines() if line in ("blocked", "open")]
    assert len(threads) > 2, done.stdout + done.stderr
    # One is let through to the thread that waits for the signal: `sigwait` opens it for as long as it waits.
    assert threads.count("open") <= 1, threads
