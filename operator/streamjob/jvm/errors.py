"""Shortens errors to one line, for statuses and conditions. The driver's log has the full text."""

from __future__ import annotations

import textwrap
from collections.abc import Collection
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError

from .causes import root_cause

LONGEST = 500  # characters
DEEPEST = 20  # causes of a Java exception; some exceptions are their own cause


def one_line(error: BaseException) -> str:
    """What has happened, in one line: the root cause, and what it happened to (`causes.root_cause`)."""
    texts = _texts(error)
    if not texts:
        return "the driver's JVM is gone"
    return shortened(root_cause(texts)) or type(error).__name__


def shortened(text: str) -> str:
    return textwrap.shorten(text, 2 * LONGEST, placeholder=" …")


def first_line(text: str) -> str:
    """The first line that is not empty, at most `LONGEST` characters."""
    return next((line.strip()[:LONGEST] for line in text.splitlines() if line.strip()), "")


def line_with(error: BaseException, words: Collection[str]) -> str | None:
    """The first line that has one of the words, in the messages of an error and of its causes.

    Spark wraps what failed in a task into several exceptions.

    :param words: in lower case.
    """
    lines = (line for text in _texts(error) for line in text.splitlines())
    found = next((line for line in lines if any(word in line.lower() for word in words)), None)
    return None if found is None else found.strip()[:LONGEST]


def _texts(error: BaseException) -> list[str]:
    """Messages and stack traces of an error and its causes, outermost first. Empty: the JVM is gone."""
    if isinstance(error, Py4JJavaError):
        try:
            return [str(cause.toString()) for cause in java_causes(error)]
        except Py4JError:
            return []
    found = [str(error) or type(error).__name__]
    cause: BaseException | None = error
    while cause is not None and len(found) < DEEPEST:
        found.append(str(getattr(cause, "_stackTrace", None) or ""))  # of the JVM, with its causes
        cause = getattr(cause, "_cause", None) or cause.__cause__  # pyspark has the former
        if cause is not None:
            captured = getattr(cause, "_stackTrace", None) is not None
            found.append(str(cause) if captured else f"{type(cause).__name__}: {cause}")
    return found


def java_causes(error: Py4JJavaError) -> list[Any]:
    """The Java exception and its causes, outermost first."""
    causes = [error.java_exception]
    while len(causes) < DEEPEST and (inner := causes[-1].getCause()) is not None:
        causes.append(inner)
    return causes
