"""The base class of all StreamJob errors. An error states what to do, and who has to do it."""

from __future__ import annotations

from typing import ClassVar

from .wording import fill


class StreamJobError(Exception):
    """States what happened, to which object, and what to do about it.

    `message` has no full stop at its end. `reason` becomes the reason of a condition in the custom resource's
    status. `retryable` says whether the same call may succeed later without a change by a person. `remedy` is
    one sentence for that person. Message and remedy may have placeholders (`wording`).
    """

    reason: ClassVar[str] = "InternalError"
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        # A full stop comes with an exception's text; what follows is added as another sentence.
        self.message = fill(message).removesuffix(".")
        self.remedy = fill(remedy)

    def __str__(self) -> str:
        if not self.remedy:
            return self.message
        ended = self.message.endswith((".", "?", "!"))
        return f"{self.message}{'' if ended else '.'} {self.remedy.rstrip('. ')}."


class FormatError(StreamJobError):
    """A document (manifest, index, message) that does not match its format."""

    reason = "MalformedDocument"


class UnknownVersion(FormatError):
    """A document of a newer format version. It is refused and never overwritten."""

    reason = "UnknownFormatVersion"


class IllegalTransition(StreamJobError):
    """A state and an event that the life-cycle table does not list: a bug in StreamJob, never ignored."""

    reason = "IllegalTransition"
