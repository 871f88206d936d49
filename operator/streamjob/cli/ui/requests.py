"""What the buttons of the page change in a job."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..errors import CommandError

Obj = dict[str, Any]


class Request(str, Enum):
    STOP = "stop"
    DRAIN = "drain"
    RESUME = "resume"
    CANCEL = "cancel"
    SUSPEND = "suspend"
    SAVEPOINT = "savepoint"
    RESTART = "restart"


class UnknownRequest(CommandError):
    """The page asks for something that this version does not know."""

    reason = "UnknownRequest"


def named(name: object) -> Request:
    """:raises UnknownRequest: there is none of this name."""
    try:
        return Request(name)
    except ValueError:
        raise UnknownRequest(f"there is no request {name!r}", remedy="Reload the page") from None


def change(request: Request, job: Obj) -> Obj:
    """The merge patch for the job. It names the resourceVersion where it counts on the spec as it is."""
    spec = job["spec"]
    match request:
        case Request.STOP:
            return _spec(state="Stopped")
        case Request.DRAIN:
            return _spec(state="Drained")
        case Request.CANCEL:
            return _spec(state="Cancelled")
        case Request.SUSPEND:
            return _spec(suspend=True)
        case Request.RESUME:
            return _spec(state="Running", suspend=False)
        case Request.SAVEPOINT:
            return _spec(savepoint=_next(spec, "savepoint")) | _unchanged(job)
        case Request.RESTART:
            return _spec(restart=_next(spec, "restart")) | _unchanged(job)


def _spec(**fields: object) -> Obj:
    return {"spec": fields}


def _next(spec: Obj, part: str) -> Obj:
    return {"nonce": (spec.get(part, {}).get("nonce") or 0) + 1}


def _unchanged(job: Obj) -> Obj:
    return {"metadata": {"resourceVersion": job["metadata"]["resourceVersion"]}}
