"""Follows a request until it has reached its goal: a live picture, or a line for each change."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from .errors import ExitCode
from .kubectl import JOBS, Event, KubectlError
from .options import Options
from .printing import screen, times
from .printing.live import Live, without_times
from .views.job import Job, job
from .views.progress import Outcome, Progress, picture, sentence, time_left

TICK = 1.0  # seconds between two pictures without a change: the time that is left
# Seconds without a change until the job is read: an API server may hold back what the watch waits for.
SILENCE = 30.0
READS = "--request-timeout=5s"  # a timeout of the command waits no longer than that for an answer
STALLED_LIMIT = 60.0  # seconds for which nothing moves without a person, until nobody waits any longer

Look = Callable[[Job | None, datetime], Progress]
_CODES = {
    Outcome.REACHED: ExitCode.DONE,
    Outcome.FAILED: ExitCode.PROBLEM,
    Outcome.SUPERSEDED: ExitCode.SUPERSEDED,
}


def follow(chosen: Options, name: str, look: Look, *, timeout: float | None, stays: str) -> ExitCode:
    """Show the progress until the goal is reached.

    :param look: how far the job is; it gets None when the job has been deleted.
    :param timeout: seconds; None: no limit.
    :param stays: what is said when nobody waits any longer: the request stays.
    """
    ends = None if timeout is None else time.monotonic() + timeout
    try:
        with Live(chosen.json) as live:
            return _until_over(_States(chosen, name), live, look, ends, chosen.json, stays)
    except KeyboardInterrupt:
        screen.note(f"\n{stays}")
        return ExitCode.INTERRUPTED


def _until_over(
    states: _States, live: Live, look: Look, ends: float | None, as_json: bool, stays: str
) -> ExitCode:
    said = ""
    while True:
        found = states.next(TICK if ends is None else min(TICK, max(ends - time.monotonic(), 0)))
        now = times.now()
        progress = look(found, now)
        text = sentence(progress)
        news = without_times(text) != said  # the seconds until something happens are none
        if as_json:
            if news:
                live.document(progress)
        elif screen.is_plain():
            if news:
                left = time_left(progress)
                screen.put([f"{now:%H:%M:%S} {text}" + (f", {left.text}" if left else "")])
        else:
            live.show(picture(progress))
        said = without_times(text)
        if progress.outcome is not Outcome.GOING:
            return _CODES[progress.outcome]
        if progress.stalled_since and (now - progress.stalled_since).total_seconds() > STALLED_LIMIT:
            screen.note(f"Nothing moves until a person has acted. {stays}")
            return ExitCode.PROBLEM
        if ends is not None and time.monotonic() >= ends:
            screen.note(f"The timeout has passed. {stays}")
            return ExitCode.TIMEOUT


class _States:
    """The states of one job, from a watch that is renewed when it ends."""

    def __init__(self, chosen: Options, name: str) -> None:
        self._kubectl, self._name = chosen.kubectl, name
        self._last: Job | None = job(self._kubectl.get(JOBS, name))
        self._watch = self._kubectl.watch(JOBS, name)
        self._read_at = time.monotonic()

    def next(self, timeout: float) -> Job | None:
        """The job after its next change, or after so many seconds; None: it is gone."""
        try:
            event = self._watch.next(timeout)
        except EOFError:
            self._watch.close()
            self._read()
            if self._last is not None:
                self._watch = self._kubectl.watch(JOBS, self._name)
            return self._last
        if event is not None:
            self._take(event)
        elif time.monotonic() - self._read_at > SILENCE:
            with suppress(KubectlError):  # the watch goes on, or ends as well
                self._read(READS)
        return self._last

    def _read(self, *options: str) -> None:
        self._read_at = time.monotonic()
        obj = self._kubectl.find(JOBS, self._name, *options)
        self._last = None if obj is None else job(obj)

    def _take(self, event: Event) -> None:
        """A state that is older than the one that is known says nothing."""
        self._read_at = time.monotonic()
        new = job(event.object)
        if self._last is None or _version(new) >= _version(self._last):
            self._last = None if event.kind == "DELETED" else new


def _version(found: Job) -> int:
    """resourceVersions of one kind can be compared."""
    text = str((found.obj.get("metadata") or {}).get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0
