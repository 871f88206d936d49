"""The final report: the last status of a driver, cut to what a termination message of a pod can hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..formats import codec
from .driver_status import DriverStatus, Problem

REPORT_LIMIT = 4096  # bytes of a pod's termination message


def report(status: DriverStatus) -> str:
    """The status as a termination message of at most REPORT_LIMIT bytes: what matters least goes first."""
    for candidate in _ever_shorter(status):
        text = codec.dumps(candidate)
        if len(text) <= REPORT_LIMIT:  # our JSON is ASCII: a character is a byte
            break
    return text


def _ever_shorter(status: DriverStatus) -> Iterator[DriverStatus]:
    status = replace(status.without_figures(), known=None, executors=None)
    yield status
    status = replace(status, aborted=None, warnings=())
    yield status
    # A savepoint that the index does not have is requested again: the same request writes it again.
    status = replace(status, savepoint=None, deleted=())
    yield status
    yield replace(status, stages=tuple(replace(s, operators=()) for s in status.stages))
    status = replace(status, stages=())
    yield status
    for size in (1000, 100):
        status = _with_texts_cut(status, size)
        yield status
    if status.completed:
        # The savepoint's own manifest has the operators; the controller needs number, epoch and URI.
        status = replace(status, completed=replace(status.completed, stages=()))
        yield status
    if status.termination:
        status = replace(status, termination=replace(status.termination, progress="", problem=None))
        yield status
    status = replace(status, problem=None)
    yield status
    status = replace(status, termination=None)
    yield status
    # A truncated URI would name another savepoint.
    yield replace(status, completed=None)


def _with_texts_cut(status: DriverStatus, size: int) -> DriverStatus:
    t = status.termination
    if t:
        t = replace(t, progress=t.progress[:size], problem=_cut(t.problem, size))
    return replace(status, termination=t, problem=_cut(status.problem, size))


def _cut(problem: Problem | None, size: int) -> Problem | None:
    return problem and replace(problem, message=problem.message[:size], remedy=problem.remedy[:size])
