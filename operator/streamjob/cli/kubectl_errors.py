"""What kubectl says when it fails, and what to do then."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .errors import CommandError, ExitCode


class KubectlError(CommandError):
    """kubectl has failed. The message is kubectl's own."""

    reason = "KubectlFailed"
    exit_code = ExitCode.CLUSTER


class NotFound(KubectlError):
    """The object does not exist."""

    reason = "NotFound"


class Forbidden(KubectlError):
    """The user lacks a permission."""

    reason = "Forbidden"


class Refused(KubectlError):
    """The API server does not accept the object: a rule of the resource, or a webhook."""

    reason = "Invalid"


class Conflict(KubectlError):
    """Somebody else has changed the object first."""

    reason = "Conflict"


def error(text: str) -> KubectlError:
    """The error that kubectl's words mean, with a remedy."""
    text = _told(text)
    lowered = text.lower()
    for words, kind, remedy in _KNOWN:
        if any(word in lowered for word in words):
            return kind(text, remedy=remedy)
    return KubectlError(text or "kubectl has failed and does not say why")


def _told(text: str) -> str:
    """What kubectl says to its user: without its library's log, which says the same once for each attempt."""
    lines = [line for line in text.splitlines() if not _LOGGED.match(line)]
    return "\n".join(lines).strip().removeprefix("error: ") or text


_LOGGED = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d")

# Most particular first: what kubectl says, in lower case.
_KNOWN: Sequence[tuple[tuple[str, ...], type[KubectlError], str]] = (
    (
        ('resource type "streamjobs', "could not find the requested resource"),
        KubectlError,
        "This cluster does not know StreamJobs: install the operator's chart, or choose another --context",
    ),
    (("(forbidden)",), Forbidden, "Ask for this permission, or choose another user: --context, --as"),
    (
        ("(notfound)",),
        NotFound,
        "See `kubectl streamjob status -A` for all jobs that there are, and choose with -n and --context",
    ),
    (("(conflict)",), Conflict, "Do it again"),
    (("is invalid", "(invalid)", "admission webhook", "denied the request"), Refused, ""),
    (
        ("(unauthorized)", "must be logged in", "provide credentials", "getting credentials"),
        KubectlError,
        "Log in to the cluster as you do for kubectl",
    ),
    (
        (
            "connection to the server",
            "connection refused",
            "no such host",
            "i/o timeout",
            "unable to connect",
        ),
        KubectlError,
        "See whether `kubectl version` reaches the cluster; choose one with --context or KUBECONFIG",
    ),
    (
        (
            "does not exist",
            "no context exists",
            "no configuration has been provided",
            "invalid configuration",
        ),
        KubectlError,
        "See `kubectl config get-contexts`; choose one with --context, or a file with --kubeconfig",
    ),
)
