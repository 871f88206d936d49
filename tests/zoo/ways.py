"""The five ways through which each script goes. Each gives a list of what was wrong."""

from __future__ import annotations

import http.client
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import unified_diff
from functools import cache
from pathlib import Path

from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode

from . import feed, header, running
from .feed import Feeder
from .header import WAYS, Script
from .judging import ALL, CLOSED, EITHER, judge
from .oracles import Row
from .running import LEFT_BECAUSE, PATIENCE, Ended, Home, Process

STOPS = 2  # of a script, by which it is started again
STOPPED = "the next start resumes from it"  # what local mode says of a stop
DRAINED = "AlreadyDrained"  # what it says where nothing is left
SIGTERM_SHARE = 0.4  # of the stops
BEFORE_ANY_QUERY = "before its first query began"  # what the log says where there was nothing to stop


def go(name: str, way: str, seed: int, keep: Path | None = None) -> list[str]:
    """Run a script in one way.

    :param keep: a folder to leave everything in; otherwise nothing is left.
    """
    script = header.load(name)
    assert way in script.ways, f"{name} does not go {way}: {script.excluded.get(way) or script.refused}"
    reference = plain(name, seed, keep)
    if way == "plain" or reference.problems:
        return reference.problems
    files = feed.files(seed, script.before + script.during)
    hold = way in ("stops", "kills") and not script.ends
    with (
        _home(keep, f"{name}-{way}-{seed}") as home,
        Feeder(home.input, files, script.before, hold_last=hold) as feeder,
    ):
        return _WAYS[way](Job(script, seed, home, files, feeder, reference.ended))


@dataclass(frozen=True)
class Job:
    """A script that goes a way.

    :param plain: what plain python has made of it.
    """

    script: Script
    seed: int
    home: Home
    files: list[list[Row]]
    feeder: Feeder
    plain: Ended

    def judge(self, way: str, forms: tuple[bool, ...], *, prefixes: bool = False) -> list[str]:
        return judge(self.script, self.home, self.files, way, forms, prefixes=prefixes)

    def moment(self, chance: random.Random) -> float:
        """Seconds from a start to the time when it is ended."""
        seconds = max(self.plain.seconds, 4.0)
        return chance.uniform(0.3 * seconds, seconds)


@dataclass(frozen=True)
class Plain:
    """What plain python has made of a script."""

    ended: Ended
    problems: list[str]


@cache
def plain(name: str, seed: int, keep: Path | None = None) -> Plain:
    script = header.load(name)
    files = feed.files(seed, script.before + script.during)
    with _home(keep, f"{name}-plain-{seed}") as home, Feeder(home.input, files, script.before) as feeder:
        with running.plain(script, home) as process:
            feeder.begin()
            if not script.ends:
                job = Job(script, seed, home, files, feeder, NOTHING)
                _settled(job, process, "plain")
                process.kill()
            ended = process.ended()
        problems = judge(script, home, files, "plain", CLOSED)
    if script.ends:
        problems += _code(ended, script.exit)
        if not _raised(script, ended):
            problems.append(f"it raised {ended.exception!r}, not {script.raises!r}")
        if script.at_end and script.at_end not in ended.stdout:
            problems.append(f"it did not print {script.at_end!r}")
    return Plain(ended, _told(problems, ended))


NOTHING = Ended(None, [], "", 0.0)


def runtime(job: Job) -> list[str]:
    script = job.script
    with running.local(script, job.home, 1) as process:
        job.feeder.begin()
        ended = process.ended()
    if script.refused:
        return _refused(script, job.home, ended)
    problems = job.judge("runtime", EITHER) + _left(script, ended)
    # Ours is one write; where the output is not buffered (PYTHONUNBUFFERED), Python writes the end of a line
    # by itself.
    stdout = re.sub(r"streamjob: .*\n", "", "\n".join([*ended.stdout, ""])).splitlines()
    if script.compare_stdout and stdout != job.plain.stdout:
        problems.append("\n".join(_differences(job.plain.stdout, stdout)))
    exception = job.plain.exception
    if exception and exception not in ended.stderr.splitlines():
        problems.append(f"stderr lacks {exception!r}")
    return _told(problems, ended)


def stops(job: Job) -> list[str]:
    return _interrupted(job, "stops")


def kills(job: Job) -> list[str]:
    return _interrupted(job, "kills")


def drain(job: Job) -> list[str]:
    arguments = job.home.arguments(job.script)[1:]
    chance = random.Random(f"{job.script.name} drain {job.seed}")
    with LocalDriver(
        job.home.folder, job.script.path, *arguments, environment=running.environment()
    ) as driver:
        job.feeder.begin()
        ends_within(driver, PATIENCE, driver.is_up)
        ends_within(driver, PATIENCE, lambda: _has_output(job.home))
        over = ends_within(driver, chance.uniform(0, job.plain.seconds / 2))
        if not over:
            with suppress(OSError, http.client.HTTPException):  # it is just leaving by itself
                driver.terminate(Mode.DRAIN)
            ends_within(driver, PATIENCE)
        code = driver.process.poll()
    log = job.home.neutral(driver.log.read_text(errors="replace"))
    ended = Ended(code, [], log, 0.0)  # it writes everything into one file
    problems = job.judge("drain", EITHER if over else ALL, prefixes=not over)
    return _told(problems + _left(job.script, ended), ended)


def _interrupted(job: Job, way: str) -> list[str]:
    """Stop or kill it some times, and let it come to its end, or drain it."""
    script, home = job.script, job.home
    chance = random.Random(f"{script.name} {way} {job.seed}")
    problems: list[str] = []
    said: list[str] = []  # by those that did not come to their end
    for number in range(1, STOPS + 1):
        with running.local(script, home, number) as process:
            process.says("streamjob: epoch")
            job.feeder.begin()
            if not process.wait(job.moment(chance)):
                _end(process, chance, way)
            ended = process.ended()
        if _by_itself(ended):
            return problems + _told(_at_its_end(job, way, said, ended), ended)
        said += ended.stdout
        if way == "stops":
            problems += _told(_stopped(job, way, ended), ended)
    if script.ends:
        with running.local(script, home, STOPS + 1) as process:
            ended = process.ended()
        return problems + _told(_at_its_end(job, way, said, ended), ended)
    with running.local(script, home, STOPS + 1) as process:
        process.says("streamjob: epoch")
        job.feeder.release()
        _settled(job, process, way)
        process.wait(job.moment(chance))
        process.interrupt()
        ended = process.ended()
    problems += _told(job.judge(way, CLOSED) + _stopped(job, way, ended), ended)
    with running.local(script, home, STOPS + 2, "--drain") as process:
        ended = process.ended()
    return problems + _told(job.judge(way, ALL) + _left(script, ended), ended)


def _end(process: Process, chance: random.Random, way: str) -> None:
    if way == "kills":
        process.kill()
    elif chance.random() < SIGTERM_SHARE:
        process.terminate()
    else:
        process.interrupt()


def _by_itself(ended: Ended) -> bool:
    """Whether the script came to its end, perhaps just before it was asked to."""
    asked = ended.code is None or ended.code < 0 or _before_any_query(ended)
    return not asked and not any(STOPPED in line for line in ended.stdout)


def _before_any_query(ended: Ended) -> bool:
    return ended.code == 0 and BEFORE_ANY_QUERY in ended.stderr


def _stopped(job: Job, way: str, ended: Ended) -> list[str]:
    """Of a start that was asked to stop."""
    script = job.script
    if _before_any_query(ended):
        return []
    # The query may fail while the job stops: then the script ends as it does without a stop.
    failed = bool(script.raises) and ended.code == script.exit and _raised(script, ended)
    problems = ([] if failed else _code(ended, 0)) + _reason(ended)
    # One that was just at its end when it was asked to stop has done it all.
    if script.at_end and script.at_end in ended.stdout and job.judge(way, EITHER):
        problems.append(f"it was stopped, and yet printed {script.at_end!r}")
    if script.at_stop and script.at_stop not in ended.stdout:
        problems.append(f"it was stopped, and did not print {script.at_stop!r}")
    return problems


def _at_its_end(job: Job, way: str, said: list[str], ended: Ended) -> list[str]:
    """Of the last start.

    :param said: what those before it have printed.
    """
    if DRAINED in ended.stderr:
        return _over_before(job, said)
    return _over(job, way, ended)


def _over(job: Job, way: str, ended: Ended) -> list[str]:
    """Of the start that came to its end by itself."""
    script = job.script
    if not script.ends:
        return ["it ended, though nobody asked it to"]
    problems = job.judge(way, EITHER) + _left(script, ended)
    if not _raised(script, ended):
        problems.append(f"stderr lacks {script.raises!r}")
    if script.at_end and script.at_end not in ended.stdout:
        problems.append(f"it did not print {script.at_end!r}")
    return problems


def _over_before(job: Job, said: list[str]) -> list[str]:
    """It was killed when it had nothing left to do but to leave."""
    script = job.script
    missed = [f"it did not print {script.at_end!r}"] if script.at_end and script.at_end not in said else []
    return job.judge("kills", EITHER) + missed


def _raised(script: Script, ended: Ended) -> bool:
    return any(line.startswith(script.raises) for line in ended.stderr.splitlines())


def _refused(script: Script, home: Home, ended: Ended) -> list[str]:
    problems = _reason(ended)
    if ended.code == 0:
        problems.append("it was to be refused, and its exit code is 0")
    if script.refused not in ended.stderr + "\n".join(ended.stdout):
        problems.append(f"it was to be refused with {script.refused!r}")
    looked_at = [o for o in script.outputs if "runtime" in script.only.get(o, WAYS)]
    if written := [output for output in looked_at if (home.output / output).exists()]:
        problems.append(f"it was refused after it had written {written}")
    return _told(problems, ended)


def _left(script: Script, ended: Ended) -> list[str]:
    return _code(ended, script.exit) + _reason(ended)


def _code(ended: Ended, expected: int) -> list[str]:
    if ended.code is None:
        return [f"it did not end within {PATIENCE:.0f} s"]
    return [] if ended.code == expected else [f"exit code {ended.code}, not {expected}"]


def _reason(ended: Ended) -> list[str]:
    said = any(LEFT_BECAUSE in line for line in [*ended.stdout, *ended.stderr.splitlines()])
    return [] if said else [f"its log does not say {LEFT_BECAUSE!r}"]


def _told(problems: list[str], ended: Ended) -> list[str]:
    return [*problems, ended.told()] if problems else []


def _differences(expected: list[str], found: list[str]) -> list[str]:
    return [
        "stdout:",
        *unified_diff(expected, found, "with plain python", "under the runtime", n=0, lineterm=""),
    ]


def _settled(job: Job, process: Process, way: str) -> bool:
    """Wait until an endless script has written all that its input lets it write."""
    deadline = time.monotonic() + PATIENCE / 2
    while process.alive() and time.monotonic() < deadline:
        if not job.judge(way, CLOSED):
            return True
        time.sleep(0.2)
    return False


def ends_within(driver: LocalDriver, seconds: float, enough: Callable[[], bool] = lambda: False) -> bool:
    """Wait until it has ended, or it is enough."""
    deadline = time.monotonic() + seconds
    while driver.process.poll() is None and time.monotonic() < deadline and not enough():
        time.sleep(0.05)
    return driver.process.poll() is not None


def _has_output(home: Home) -> bool:
    with suppress(OSError):  # folders come and go while it is looked at
        return any(home.output.rglob("part-*"))
    return False


@contextmanager
def _home(keep: Path | None, name: str) -> Iterator[Home]:
    if keep is not None:
        shutil.rmtree(keep / name, ignore_errors=True)
        yield Home((keep / name).absolute())
        return
    with tempfile.TemporaryDirectory(prefix="zoo-") as folder:
        yield Home(Path(folder) / name)


_WAYS = {"runtime": runtime, "stops": stops, "kills": kills, "drain": drain}
