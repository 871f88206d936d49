"""How a job of the matrix is ended, until everything is over; and what was wrong with its output."""

from __future__ import annotations

import http.client
import json
import random
import re
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import streamjob
from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from tests.zoo.running import PATIENCE, Home, Process
from tests.zoo.ways import ends_within

from .sources import BEFORE, DURING, ROWS, START, STEP, WINDOW, Source

APP = Path(__file__).with_name("app.py")
PACKAGE = str(Path(streamjob.__file__).parents[1])
LIVE = ("default", "interval")  # triggers of a query that does not end by itself
BATCH = re.compile(r"^batch (\d+) rows (\d+)$", re.MULTILINE)
LONG = 6.0  # seconds in which a job is ended at a random moment


class Job:
    """One case: a source, a trigger, an end."""

    def __init__(self, source: Source, trigger: str, seed: str) -> None:
        self.source, self.trigger = source, trigger
        self.home = Home(source.home / "job")
        self.out = self.home.output / "windows"
        self.chance = random.Random(seed)
        self._starts = 0
        self._batches: dict[int, int] = {}
        self.problems: list[str] = []

    @property
    def arguments(self) -> list[str]:
        return [self.source.name, self.source.where, self.trigger, str(self.out)]

    def start(self, *options: str) -> Process:
        self._starts += 1
        state = ["--local", "--state", str(self.home.folder / "state"), *options]
        command = ["-m", "streamjob.runtime", *state, str(APP), *self.arguments]
        variables = {**self.source.variables(), "PYTHONPATH": PACKAGE}
        return Process(self.home, f"start-{self._starts}", command, variables)

    def run(self, *options: str, until: Callable[[Process], None] = lambda _: None) -> None:
        """Start it, do something, and wait for its end with exit code 0."""
        process = self.start(*options)
        try:
            until(process)
            ended = process.ended()
        finally:
            process.kill()
        self._count("\n".join(ended.stdout))
        if ended.code != 0 and "AlreadyDrained" not in ended.stderr:
            self.problems += [f"start {self._starts} {options}: exit code {ended.code}", ended.told()]

    def kill(self, process: Process) -> None:
        self._wait_for_a_moment(process)
        process.kill()
        self._count(self._printed())

    def interrupt(self, process: Process) -> None:
        self._wait_for_a_moment(process)
        process.interrupt()

    def interrupt_when_all_is_read(self, process: Process) -> None:
        process.says("streamjob: Running")  # all may have been read by the process before
        deadline = time.monotonic() + PATIENCE / 2
        while process.alive() and time.monotonic() < deadline and self.rows_read() < ROWS:
            time.sleep(0.1)
        process.interrupt()

    def rows_read(self) -> int:
        self._count(self._printed())
        return sum(self._batches.values())

    def _printed(self) -> str:
        return "\n".join(f.read_text(errors="replace") for f in sorted(self.home.folder.glob("start-*.out")))

    def _count(self, printed: str) -> None:
        """A batch that a crash has repeated counts once."""
        self._batches |= {int(batch): int(rows) for batch, rows in BATCH.findall(printed)}

    def _wait_for_a_moment(self, process: Process) -> None:
        process.says("batch ")
        process.wait(self.chance.uniform(0, LONG))


def script_end(job: Job) -> None:
    job.run()


def stop(job: Job) -> None:
    job.run(until=job.interrupt)
    to_the_end(job)


def kill(job: Job) -> None:
    process = job.start()
    job.kill(process)
    to_the_end(job)


def handover(job: Job) -> None:
    first = job.start()
    try:
        first.says("batch ")
        if job.trigger in LIVE and not job.source.endless:
            job.run("--handover", until=job.interrupt_when_all_is_read)
        else:
            job.run("--handover", until=job.interrupt)
        if not first.wait(PATIENCE):
            job.problems.append("the first process did not end")
    finally:
        first.kill()
    to_the_end(job)


def drain_at_start(job: Job) -> None:
    job.run(until=job.interrupt)
    job.run("--drain")


def drain(job: Job) -> None:
    """As in a pod, at a random moment."""
    with LocalDriver(
        job.home.folder, APP, *job.arguments, environment={**job.source.variables(), "PYTHONUNBUFFERED": "1"}
    ) as driver:
        ends_within(driver, PATIENCE, lambda: "batch " in driver.log.read_text(errors="replace"))
        ends_within(driver, job.chance.uniform(0, LONG))
        with suppress(OSError, http.client.HTTPException):  # it may be leaving by itself
            driver.terminate(Mode.DRAIN)
        if (code := driver.wait()) != 0:
            job.problems += [f"exit code {code}", driver.tail()]


def to_the_end(job: Job) -> None:
    """Until all that there is to read is read, and every window is out."""
    if job.trigger in LIVE:
        job.run(until=job.interrupt if job.source.endless else job.interrupt_when_all_is_read)
        job.run("--drain")
    else:
        job.run()
        if job.source.endless:  # each run of it reads a little more
            job.run("--drain")


ENDS: dict[str, Callable[[Job], None]] = {
    "end": script_end,
    "stop": stop,
    "kill": kill,
    "handover": handover,
    "drain": drain,
    "drain-at-start": drain_at_start,
}
READS_ALL = ("end", "stop", "kill", "handover")


def go(source: Source, trigger: str, end: str, seed: int) -> list[str]:
    """Run a case to its end.

    :returns: what was wrong.
    """
    job = Job(source, trigger, f"{source.name} {trigger} {end} {seed}")
    during = DURING if trigger in LIVE else 0
    source.fill(BEFORE + DURING - during)
    late = threading.Thread(target=source.fill, args=(during,))
    late.start()
    try:
        ENDS[end](job)
    finally:
        late.join()
    return job.problems + wrong(source, job.out, everything=end in READS_ALL and not source.endless)


def wrong(source: Source, out: Path, *, everything: bool) -> list[str]:
    """What is in the output, against what is in the source."""
    problems = []
    found: list[int] = []
    for start, ids in committed(out):
        misplaced = [i for i in ids if not 0 <= START + i * STEP - start < WINDOW]
        if misplaced:
            problems.append(f"window {start} has rows of another: {misplaced}")
        found += ids
    twice = sorted({i for i in found if found.count(i) > 1})
    if twice:
        problems.append(f"twice: {twice}")
    seen = set(found)
    if source.endless:
        if seen != set(range(len(seen))):
            problems.append(f"missing: {sorted(set(range(max(seen, default=0))) - seen)}")
        return problems
    for ids in source.partitions:
        read = [i for i in ids if i in seen]
        due = ids if everything else ids[: len(read)]
        if read != due:
            problems.append(f"missing: {sorted(set(due) - set(read))}, read: {len(read)} of {len(ids)}")
    if not seen:
        problems.append("nothing was written")
    return problems


def committed(out: Path) -> list[tuple[int, list[int]]]:
    """The windows in the files that the sink's log names: start and ids."""
    names: set[str] = set()
    for entry in (out / "_spark_metadata").glob("[!.]*"):
        lines = [json.loads(line) for line in entry.read_text().splitlines()[1:]]
        names |= {Path(line["path"].removeprefix("file:")).name for line in lines}
    rows = [json.loads(line) for name in sorted(names) for line in (out / name).read_text().splitlines()]
    return [(row["start"], row["ids"]) for row in rows]
