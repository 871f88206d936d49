"""Shortens errors to one line, for statuses and conditions. The driver's log has the full text."""

from __future__ import annotations

import textwrap
from collections.abc import Collection
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

LONGEST = 500  # characters
TRACEBACK = "Traceback (most recent call last):"
DEEPEST = 20  # causes of a Java exception; some exceptions are their own cause


def one_line(error: BaseException) -> str:
    """The first line of an error's message.

    For a Java exception, that of its innermost cause, because the outer exceptions only wrap it.
    """
    if isinstance(error, Py4JJavaError):
        try:
            return first_line(str(java_causes(error)[-1].toString()))
        except Py4JError:
            return "the driver's JVM is gone"
    return first_line(str(error)) or type(error).__name__


def first_line(text: str) -> str:
    """The first line that is not empty, at most `LONGEST` characters.

    If that line only announces a Python traceback, as Spark's messages about a function of the script do, the
    exception is appended: the first line after the frames.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    said = lines[0].strip()
    if not said.endswith(TRACEBACK):
        return said[:LONGEST]
    raised = next((line.strip() for line in lines[1:] if not line[0].isspace()), "")
    where = textwrap.shorten(said.removesuffix(TRACEBACK).rstrip(": "), LONGEST // 2, placeholder=" …")
    return ": ".join(part for part in (where, raised[: LONGEST // 2]) if part)


def line_with(error: BaseException, words: Collection[str]) -> str | None:
    """The first line that has one of the words, in the messages of an error and of its causes.

    Spark wraps what failed in a task into several exceptions.

    :param words: in lower case.
    """
    lines = (line for text in _messages(error) for line in text.splitlines())
    found = next((line for line in lines if any(word in line.lower() for word in words)), None)
    return None if found is None else found.strip()[:LONGEST]


def _messages(error: BaseException) -> list[str]:
    """The messages of an error and of its causes, outermost first."""
    if isinstance(error, Py4JJavaError):
        try:
            return [str(cause.toString()) for cause in java_causes(error)]
        except Py4JError:
            return []  # the driver's JVM is gone
    found: list[str] = []
    cause: BaseException | None = error
    while cause is not None and len(found) < DEEPEST:
        found.append(str(cause))
        cause = getattr(cause, "_cause", None) or cause.__cause__  # pyspark has the former
    return found


def java_causes(error: Py4JJavaError) -> list[Any]:
    """The Java exception and its causes, outermost first."""
    causes = [error.java_exception]
    while len(causes) < DEEPEST and (inner := causes[-1].getCause()) is not None:
        causes.append(inner)
    return causes
