"""The final report: the last status of a driver, cut to what a termination message of a pod can hold.

It is JSON. What is left when only the checkpoint's record makes it too long is packed: the record has the
finished flags and the transactions, and may be nowhere else.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import replace

from ..errors import FormatError
from ..formats import codec
from .driver_status import DriverStatus, Problem

REPORT_LIMIT = 4096  # bytes of a pod's termination message
PACKED = "zlib:"  # prefix of a report that is compressed, in Base64
UNPACKED_LIMIT = 1 << 20  # bytes


def report(status: DriverStatus) -> str:
    """The status as a termination message of at most REPORT_LIMIT bytes: what matters least goes first."""
    for candidate in _ever_shorter(status):
        text = codec.dumps(candidate)
        if len(text) <= REPORT_LIMIT:  # our JSON is ASCII: a character is a byte
            return text
    packed = _packed(candidate)
    if len(packed) <= REPORT_LIMIT:
        return packed
    for shorter in _without_the_record(candidate):
        text = codec.dumps(shorter)
        if len(text) <= REPORT_LIMIT:
            break
    return text


def read(text: str) -> DriverStatus:
    """Parse a report.

    :raises FormatError: it is none.
    """
    if not text.startswith(PACKED):
        return codec.loads(DriverStatus, text)
    unpack = zlib.decompressobj()
    try:
        plain = unpack.decompress(base64.b64decode(text[len(PACKED) :], validate=True), UNPACKED_LIMIT)
    except (ValueError, zlib.error) as e:
        raise FormatError(f"a final report that cannot be unpacked ({e})") from None
    return codec.loads(DriverStatus, plain)


def _packed(status: DriverStatus) -> str:
    return PACKED + base64.b64encode(zlib.compress(codec.dumps(status).encode(), 9)).decode()


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


def _without_the_record(status: DriverStatus) -> Iterator[DriverStatus]:
    if known := status.completed:
        # The savepoint's own manifest has the stages; the controller needs number, epoch and URI. Without a
        # savepoint nobody would have the finished flags: the next driver resumes from the checkpoint before.
        status = replace(status, completed=None if known.savepoint is None else replace(known, stages=()))
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
