"""What the buttons of the page change in a job."""

from __future__ import annotations

from enum import Enum
from typing import Any

from ..errors import CommandError
from ..views.ending import GOALS
from ..views.job import once_more

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


def patch(request: Request, job: Obj) -> Obj:
    """The merge patch for the job. It names the resourceVersion where it counts on the spec as it is."""
    if request is Request.SAVEPOINT:
        return _once_more(job, "savepoint")
    if request is Request.RESTART:
        return _once_more(job, "restart")
    return {"spec": dict(GOALS[request.value].change)}


def _once_more(job: Obj, part: str) -> Obj:
    """Two people who ask at the same time get one each, or one of them an error."""
    version = job["metadata"]["resourceVersion"]
    return {"metadata": {"resourceVersion": version}, "spec": {part: once_more(job["spec"], part)}}
