"""The page beside a local job (`--ui`): `streamjob ui --local DIR` in a process of its own.

It ends with the job, however that ends: its standard input is a pipe that only this process can write to.
Ctrl-C is the job's alone, so that a stop can be watched.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from ...driver import threads

PACKAGE = "click"  # what the page needs beside the standard library
COMMAND = (sys.executable, "-m", "streamjob.cli", "ui", "--no-browser", "--until-eof", "--local")


def start(folder: Path, tell: Callable[[str], None]) -> None:
    """Start the page of the job in this folder, and tell its address when it has one. The job runs without a
    page, too: if there is none, why not is told.
    """
    if find_spec(PACKAGE) is None:
        tell(
            f"streamjob: no page: the package {PACKAGE} is missing; "
            "pip install './streamjob-VERSION-py3-none-any.whl[cli]'"
        )
        return
    try:
        process = subprocess.Popen(
            [*COMMAND, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
    except OSError as e:
        tell(f"streamjob: no page: {e}")
        return
    threads.start(_report, "streamjob-page", process, tell)


def _report(process: subprocess.Popen[str], tell: Callable[[str], None]) -> None:
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        if line.startswith("http://"):
            tell(f"streamjob: the page of this job: {line.strip()}")
        else:
            said = line.strip().removeprefix("error: ")
    code = process.wait()
    tell(f"streamjob: there is no page any more: {said or f'its process has ended with exit code {code}'}")
