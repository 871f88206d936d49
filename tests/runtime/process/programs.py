"""A program with the runtime's signals, in a process of its own: a real process gets a real signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

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


# A thread that raises an error in the main thread as soon as that says that it is `inside`.
RAISES = """
inside = threading.Event()
def end():
    inside.wait()
    ours.raise_in_main_thread(KeyError)
threading.Thread(target=end, daemon=True).start()
"""
