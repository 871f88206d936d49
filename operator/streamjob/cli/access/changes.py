"""Changes a job: what its situation does not allow is refused, and whoever was faster does no harm."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import CommandError
from ..kubectl import JOBS, Conflict, Kubectl, Obj
from ..views.ending import refused
from ..views.job import Job

ATTEMPTS = 5  # the status changes all the time, and with it the version


class NotPossible(CommandError):
    """The job is in a state from which this does not lead anywhere."""

    reason = "NotPossible"


def refuse(found: Job, verb: str) -> None:
    """:raises NotPossible: it would lead nowhere, and why."""
    why = refused(found, verb)
    if why is not None:
        raise NotPossible(why[0], remedy=why[1])


def change(kubectl: Kubectl, found: Obj, build: Callable[[Obj], Obj]) -> Obj:
    """Patch the job. If somebody was faster, again with what the newest one takes.

    :param found: the job, perhaps not the newest.
    :param build: the patch for a job. It raises what speaks against it.
    :returns: the job as it is then.
    :raises Conflict: somebody was faster each time.
    """
    name = found["metadata"]["name"]
    for _ in range(ATTEMPTS - 1):
        try:
            return kubectl.patch(JOBS, name, build(found))
        except Conflict:
            found = kubectl.get(JOBS, name)
    return kubectl.patch(JOBS, name, build(found))
