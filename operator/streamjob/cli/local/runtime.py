"""Runs the runtime's commands on this machine, with the pyspark of this environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

from ..errors import CommandError

COMMAND = (sys.executable, "-m", "streamjob.runtime")


class RuntimeFailed(CommandError):
    """A command of the runtime has failed on this machine."""

    reason = "RuntimeFailed"


def become(words: Sequence[str]) -> NoReturn:
    """Run `python -m streamjob.runtime WORDS` in place of this process."""
    sys.stdout.flush()
    os.execv(sys.executable, [*COMMAND, *words])  # noqa: S606


def output(words: Sequence[str]) -> str:
    """Run `python -m streamjob.runtime WORDS`.

    :returns: what it writes. Exit code 1 is a finding, which is in there.
    :raises RuntimeFailed: it has failed.
    """
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, encoding="utf-8", check=False)
    if done.returncode in (0, 1) and done.stdout:
        return done.stdout
    told = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    raise RuntimeFailed(
        f"the storage cannot be read: {told[-1].removeprefix('streamjob: ')}",
        remedy="It takes Java and pyspark: use the environment in which the job runs",
    )
