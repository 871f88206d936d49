"""Runs the command as a user does, and keeps what it printed, for docs/reference/transcript.md.

A block of that page is written again with STREAMJOB_WRITE=1. Otherwise each is compared: command and lines,
without times, durations and identities, which differ from run to run.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import re
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "transcript.md"
BLOCK = "<!-- transcript: {name} -->\n```text\n{text}```\n<!-- /transcript -->"
FOUND = r"<!-- transcript: {name} -->\n```text\n(.*?)```\n<!-- /transcript -->"
CHANGES = (
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\dZ?", "TIME"),
    (r"\b\d\d-\d\d \d\d:\d\d:\d\d\b", "TIME"),
    (r"(?m)^\d\d:\d\d:\d\d\b", "TIME"),
    # Not within a name: its hexadecimal digits may end like a span (orders-tool-21456d).
    (r"(?<![\w.-])\d+(\.\d+)?(ms|[smhd])(\d+[smh])?\b( ago)?", "SPAN"),
    (r" +", " "),
)
NUMBERS = (
    (r"-[0-9a-f]{4}(-[0-9a-f]{4}){2}-[0-9a-f]{12}", ""),
    (r"\b[0-9a-f]{6,}\b", "N"),
    (r"\d+(\.\d+)?( [KMG]?i?B\b| bytes)?", "N"),
    (r"(N[ ,]*)+", "N "),
)
STEP = re.compile(r"TIME |streamjob: there are more than|The pod \S+ waits for ")


@dataclass(frozen=True)
class Ran:
    """A command that has ended.

    :param out: both outputs, as a terminal shows them.
    """

    code: int
    out: str


@dataclass
class Terminal:
    """A user's terminal.

    :param namespace: of the test; the transcripts have another name for it.
    :param uid: of the job, of which the names of its folders have a part.
    :param environment: how kubectl reaches the cluster, beside what this process has.
    :param context: of kubectl's configuration; None for the current one.
    :param steady: whether each run prints the same numbers. Otherwise blocks are compared without them.
    """

    namespace: str
    uid: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    context: str | None = None
    steady: bool = True

    async def run(self, name: str, *words: str) -> Ran:
        """Run `kubectl streamjob WORDS` to its end, and keep it as the block of this name."""
        return await self.end(name, await self.start(*words), *words)

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        """Start the command; it goes on while the test plays the driver."""
        environment = {
            **os.environ,
            **self.environment,
            "PYTHONPATH": str(ROOT / "operator"),
            "COLUMNS": "110",
        }
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'kubectl-streamjob'; "
            "from streamjob.cli.__main__ import main; sys.exit(main())",
            *words,
            "-n",
            self.namespace,
            *(["--context", self.context] if self.context else []),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment,
            # It may be ignored, where the tests run in the background of a shell.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )

    async def end(self, name: str, process: asyncio.subprocess.Process, *words: str) -> Ran:
        out, _ = await process.communicate()
        assert process.returncode is not None
        text = self.public(out.decode())
        if name:
            self.keep(name, " ".join(words), text, process.returncode)
        return Ran(process.returncode, text)

    def keep(self, name: str, words: str, text: str, code: int) -> None:
        """Compare the block of this name with the page, or write it."""
        exit_code = f"[exit code {code}]\n" if code else ""
        text = f"$ kubectl streamjob {words}\n{self.public(text)}{exit_code}"
        keep(name, text, numbers=self.steady)

    def public(self, text: str) -> str:
        """Without what only this run has: the namespace and the job's identity."""
        text = text.replace(f" -n {self.namespace}", "").replace(self.namespace, "streams")
        return text.replace(self.uid[:8], "0a1b2c3d") if self.uid else text


def keep(name: str, text: str, *, numbers: bool = True) -> None:
    """Compare with the page, or write it.

    :param numbers: whether they are compared, too.
    """
    page = PAGE.read_text()
    there = re.search(FOUND.format(name=name), page, re.DOTALL)
    assert there is not None, f"{PAGE.name} has no transcript {name}"
    if not os.environ.get("STREAMJOB_WRITE"):
        found, expected = steady(text, numbers=numbers), steady(there[1], numbers=numbers)
        difference = "\n".join(difflib.unified_diff(expected, found, "the page", "this run", lineterm=""))
        assert found == expected, f"{name}: STREAMJOB_WRITE=1 writes it again:\n{difference}"
        return
    block = BLOCK.format(name=name, text=text)
    PAGE.write_text(page[: there.start()] + block + page[there.end() :])


def steady(text: str, *, numbers: bool = True) -> list[str]:
    """The lines that every run has. Of the steps of something that goes on, a run may miss some."""
    for pattern, word in (*CHANGES, *(() if numbers else NUMBERS)):
        text = re.sub(pattern, word, text)
    return [line for line in text.splitlines() if not STEP.match(line)]
