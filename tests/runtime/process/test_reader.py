"""Commands whose output nobody reads to its end, as with `| head`."""

from __future__ import annotations

import subprocess
import sys

import pytest

COMMANDS = [
    ("savepoint", "streamjob.runtime.savepoints.cli"),
    ("state", "streamjob.runtime.savepoints.rows.cli"),
]
# In place of a command that needs Java: one that writes so much that the pipe is full, or so little that all
# of it is written when the process ends.
SCRIPT = """
import sys
import {module} as command
from streamjob.runtime.__main__ import main

command.main = lambda words: print("x" * {size}) or 1
sys.exit(main(["{name}"]))
"""


@pytest.mark.parametrize("size", [10, 1_000_000])
@pytest.mark.parametrize(("name", "module"), COMMANDS)
def test_a_reader_that_leaves_is_no_error(name: str, module: str, size: int) -> None:
    words = [sys.executable, "-c", SCRIPT.format(name=name, module=module, size=size)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode in (0, 1)
