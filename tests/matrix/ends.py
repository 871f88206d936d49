"""How a job of the matrix is ended, until everything is over; and what was wrong with its output."""

from __future__ import annotations

import http.client
import json
import random
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import streamjob
from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from tests.zoo.running import PATIENCE, Ended, Home, Process
from tests.zoo.ways import ends_within

from .cases import CHAIN, ENDLESS, LIVE, Case
from .sources import BEFORE, DURING, ROWS, START, STEP, WINDOW, Sources, partitions

APP = Path(__file__).with_name("app.py")
PACKAGE = str(Path(streamjob.__file__).parents[1])
BATCH = re.compile(r"^(\S+) batch (\d+) rows (\d+)$", re.MULTILINE)
BUSY = "Timed out while waiting for the Python worker"  # Spark waits 10 s, on a busy machine as well
LONG = 10.0  # seconds in which a job is ended at a random moment
QUIET = 60.0  # seconds without a batch, after which a job has nothing left to read


class Job:
    """One case."""

    def __init__(self, sources: Sources, case: Case, seed: int) -> None:
        self.sources, self.case = sources, case
        self.home = Home(sources.home / "job")
        self.out = self.home.output / "windows"
        self.chance = random.Random(f"{case} {seed}")
        self._starts = 0
        self._rows: dict[str, dict[int, int]] = defaultdict(dict)  # by query and batch
        self.problems: list[str] = []

    @property
    def arguments(self) -> list[str]:
        inputs = [f"{name}={self.sources.where(name)}" for name in self.case.sources]
        return [self.case.trigger, str(self.out), *inputs]

    def start(self, *options: str) -> Process:
        self._starts += 1
        state = ["--local", "--state", str(self.home.folder / "state"), *options]
        command = ["-m", "streamjob.runtime", *state, str(APP), *self.arguments]
        variables = {**self.sources.variables(), "PYTHONPATH": PACKAGE}
        return Process(self.home, f"start-{self._starts}", command, variables)

    def run(self, *options: str, until: Callable[[Process], None] = lambda _: None) -> None:
        """Start it, do something, and wait for its end with exit code 0."""
        ended = self._run(*options, until=until)
        while ended.code != 0 and BUSY in ended.stderr:  # a pod would be started again, too
            ended = self._run(*options, until=until)
        if ended.code != 0 and "AlreadyDrained" not in ended.stderr:
            self.problems += [f"start {self._starts} {options}: exit code {ended.code}", ended.told()]

    def _run(self, *options: str, until: Callable[[Process], None]) -> Ended:
        process = self.start(*options)
        try:
            until(process)
            ended = process.ended()
        finally:
            process.kill()
        self._count("\n".join(ended.stdout))
        return ended

    def kill(self, process: Process) -> None:
        self._wait_for_a_moment(process)
        process.kill()
        self._count(self._printed())

    def interrupt(self, process: Process) -> None:
        self._wait_for_a_moment(process)
        process.interrupt()

    def interrupt_when_all_is_read(self, process: Process) -> None:
        if self.case.endless:
            self.interrupt(process)
            return
        process.says("streamjob: Running")  # all may have been read by the process before
        read, since = self._read(), time.monotonic()
        # A process that was killed may have committed its last batch without printing it.
        while process.alive() and min(read) < ROWS and time.monotonic() < since + QUIET:
            time.sleep(0.1)
            if read != (now := self._read()):
                read, since = now, time.monotonic()
        process.interrupt()

    def _read(self) -> list[int]:
        """Rows that each query has read, as far as it has printed that."""
        self._count(self._printed())
        return [sum(self._rows[name].values()) for name in self.case.sources if name != CHAIN]

    def _printed(self) -> str:
        return "\n".join(f.read_text(errors="replace") for f in sorted(self.home.folder.glob("start-*.out")))

    def _count(self, printed: str) -> None:
        """A batch that a crash has repeated counts once."""
        for name, batch, rows in BATCH.findall(printed):
            self._rows[name][int(batch)] = int(rows)

    def _wait_for_a_moment(self, process: Process) -> None:
        for name in self.case.sources:
            process.says(f"{name} batch ")
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
        first.says(" batch ")
        job.run("--handover", until=job.interrupt_when_all_is_read)
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
        job.home.folder, APP, *job.arguments, environment={**job.sources.variables(), "PYTHONUNBUFFERED": "1"}
    ) as driver:

        def all_have_read() -> bool:
            log = driver.log.read_text(errors="replace")
            return all(f"{name} batch " in log for name in job.case.sources)

        ends_within(driver, PATIENCE, all_have_read)
        ends_within(driver, job.chance.uniform(0, LONG))
        with suppress(OSError, http.client.HTTPException):  # it may be leaving by itself
            driver.terminate(Mode.DRAIN)
        if (code := driver.wait()) != 0:
            job.problems += [f"exit code {code}", driver.tail()]


def to_the_end(job: Job) -> None:
    """Until all that there is to read is read, and every window is out."""
    if job.case.trigger in LIVE:
        job.run(until=job.interrupt_when_all_is_read)
        job.run("--drain")
    else:
        job.run()
        if job.case.endless:  # each run of it reads a little more
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


def go(sources: Sources, case: Case, seed: int) -> list[str]:
    """Run a case to its end.

    :returns: what was wrong.
    """
    job = Job(sources, case, seed)
    during = DURING if case.trigger in LIVE else 0
    sources.fill(BEFORE + DURING - during)
    late = threading.Thread(target=sources.fill, args=(during,))
    late.start()
    try:
        ENDS[case.end](job)
    finally:
        late.join()
    problems, everything = job.problems, case.end in READS_ALL
    for name in case.sources:
        problems += [f"{name}: {text}" for text in wrong(name, job.out / name, everything=everything)]
    if CHAIN in case.sources and ids_in(job.out / CHAIN) != ids_in(job.out / "files"):
        problems.append("the chain has not read what the query before it has written")
    return problems


def ids_in(out: Path) -> list[int]:
    return sorted(i for _, found in committed(out) for i in found)


def wrong(name: str, out: Path, *, everything: bool) -> list[str]:
    """What is in the output of the query of this source, against what is in the source."""
    problems = []
    found: Counter[int] = Counter()
    for start, ids in committed(out):
        misplaced = [i for i in ids if not 0 <= START + i * STEP - start < WINDOW]
        if misplaced:
            problems.append(f"window {start} has rows of another: {misplaced}")
        found.update(ids)
    if twice := sorted(i for i, times in found.items() if times > 1):
        problems.append(f"twice: {twice}")
    if not found:
        problems.append("nothing was written")
    if name == ENDLESS:
        if gaps := sorted(set(range(max(found, default=0))) - found.keys()):
            problems.append(f"missing: {gaps}")
        return problems
    for ids in partitions(name):
        read = [i for i in ids if i in found]
        due = ids if everything else ids[: len(read)]
        if read != due:
            problems.append(f"missing: {sorted(set(due) - set(read))}, read: {len(read)} of {len(ids)}")
    return problems


def committed(out: Path) -> list[tuple[int, list[int]]]:
    """The windows in the files that the sink's log names: start and ids."""
    names: set[str] = set()
    for entry in (out / "_spark_metadata").glob("[!.]*"):
        lines = [json.loads(line) for line in entry.read_text().splitlines()[1:]]
        names |= {Path(line["path"].removeprefix("file:")).name for line in lines}
    rows = [json.loads(line) for name in sorted(names) for line in (out / name).read_text().splitlines()]
    return [(row["start"], row["ids"]) for row in rows]
