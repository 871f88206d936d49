"""The errors of calls to the API server."""

from __future__ import annotations

import json
from typing import Any

from ...protocol.errors import StreamJobError

PAUSE_MAX = 60.0  # seconds; the longest that a server's Retry-After keeps us waiting


class KubeError(StreamJobError):
    """The API server refused the call or did not answer.

    :param code: the HTTP status, or 0 if the server did not answer: the call may have been applied all the
        same.
    :param retry_after: the pause in seconds that the server has asked for, if any.
    """

    reason = "KubernetesError"
    retryable = True

    def __init__(
        self, code: int, message: str, *, retry_after: float | None = None, remedy: str = ""
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.code = code
        self.retry_after = retry_after


class ObjectNotFound(KubeError):
    reason = "NotFound"


class Conflict(KubeError):
    """The object has changed since it was observed: observe again."""

    reason = "Conflict"


class AlreadyExists(KubeError):
    reason = "AlreadyExists"


class Forbidden(KubeError):
    """Permissions, quota, pod security or admission; the message says which."""

    reason = "Forbidden"


class NamespaceTerminating(Forbidden):
    """The namespace is being deleted for good: nothing can be created in it any more."""

    reason = "NamespaceTerminating"


class Refused(KubeError):
    """The API server rejects the object as invalid."""

    reason = "Invalid"


class NameTaken(StreamJobError):
    """An object with the name that we need exists and belongs to something else.

    :param what: kind and name of the object.
    """

    reason = "NameTaken"

    def __init__(self, what: str) -> None:
        remedy = "Delete or rename it, or give the StreamJob another name"
        super().__init__(f"the {what} exists and belongs to something else", remedy=remedy)


def error_of(code: int, data: bytes | str | None, headers: Any) -> KubeError:
    """Turn an answer of the API server into the error that it means, with the server's own message."""
    try:
        status = json.loads(data or "{}")
        reason, message = status.get("reason", ""), status.get("message", "")
        causes = [cause.get("reason") for cause in (status.get("details") or {}).get("causes") or ()]
    except ValueError:
        reason, message, causes = "", str(data)[:200], []
    message = message or f"the API server answered {code}"
    if code == 404:
        return ObjectNotFound(code, message)
    if code == 409:
        return (AlreadyExists if reason == "AlreadyExists" else Conflict)(code, message)
    if code == 403 and NamespaceTerminating.reason in causes:
        return NamespaceTerminating(code, message)
    if code == 403 and "serviceaccount" in message and "not found" in message:
        return Forbidden(
            code, message, remedy="Create the account, or correct spec.driver.serviceAccountName"
        )
    if code == 403:
        return Forbidden(
            code, message, remedy="Give the controller the permission, or fix the policy or quota named here"
        )
    if code in (400, 422):
        return Refused(code, message, remedy="Fix the field of the spec that the message names")
    after = headers.get("Retry-After")
    wait = min(float(after), PAUSE_MAX) if after and after.isdigit() else None
    return KubeError(code, message, retry_after=wait)
