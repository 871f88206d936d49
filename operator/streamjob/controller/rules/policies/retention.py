"""Deletes live savepoints that have expired (`spec.savepoint.retained`). Pure, a part of `decide`.

A deletion has three steps, each of which may be repeated: the index drops the savepoint, so that nobody
restores from a partly deleted one, and records it for deletion; the driver deletes it; the index records that
it is deleted. If the driver dies, the next one repeats the second step.

Never deleted: savepoints of a stop, a drain or an eviction; the newest savepoint; one from which a StreamJob
of the namespace restores. The last rule needs a list of the StreamJobs, which is read only when a savepoint
is about to go.
"""

from __future__ import annotations

import re
from datetime import datetime

from ....api.storage import Retained
from ....api.types import duration
from ....protocol.formats import index as indices
from ....protocol.formats.index import Index
from ....protocol.messages.commands import SAVEPOINT_ID, SavepointDeletion
from ....protocol.times import moment, timestamp
from ..actions import Action, DeleteSavepoints, WriteIndex, deletion_token
from ..context import Context
from ..observed import Observed


def tidy(c: Context) -> tuple[Action, ...]:
    """The next step; none while a savepoint request is pending. The driver must be running."""
    index, driver, request = c.observed.index, c.observed.driver, c.status.savepoint_request
    if index is None or driver is None or (request is not None and not request.over):
        return ()
    if c.observed.restored_from is None:
        return ()  # not looked up, because nothing was about to be deleted
    kept = {_plain(s) for s in c.observed.restored_from}
    expired = [
        s for s in surplus(index, c.observed.job.spec.savepoint.retained, c.now) if _plain(s) not in kept
    ]
    if expired:
        return (WriteIndex(indices.retire(index, expired), c.observed.index_version),)
    if done := set(index.to_delete) & set(driver.deleted):
        return (WriteIndex(indices.gone(index, done, timestamp(c.now)), c.observed.index_version),)
    going = tuple(s for s in index.to_delete if _plain(s) not in kept)
    if going and deletion_token(going) not in c.observed.acknowledged:
        return (DeleteSavepoints(SavepointDeletion(c.status.epoch, going)),)
    return ()


def about_to_go(observed: Observed, now: datetime) -> bool:
    """Whether a savepoint may be deleted next, so that `Observed.restored_from` must be looked up."""
    if observed.driver is None or observed.index is None:
        return False
    return bool(
        observed.index.to_delete or surplus(observed.index, observed.job.spec.savepoint.retained, now)
    )


def surplus(index: Index, retained: Retained, now: datetime) -> list[str]:
    """URIs of live savepoints beyond `retained.count` or `retained.age`; never the newest savepoint."""
    beside = [
        c
        for c in index.checkpoints
        if c.savepoint and c.scenario is None and (c.request_id or "").startswith(SAVEPOINT_ID)
    ]
    many = beside[: -retained.count] if retained.count is not None else []
    age = duration(retained.age) if retained.age is not None else None
    old = [c for c in beside if age is not None and moment(c.completed_at) + age < now]
    return [
        c.savepoint for c in beside if c.savepoint and (c in many or c in old) and c != index.latest_savepoint
    ]


def _plain(savepoint: str) -> str:
    """Normalize the slashes after `file:` and at the end, so that the same location compares equal."""
    return re.sub(r"^file:/+", "file:/", savepoint).rstrip("/")
