"""Which savepoints beside the run are kept no longer (`spec.savepoint.retained`), and how they go. Pure, a part of `decide`.

In three steps, each of which may be repeated: the index forgets the savepoint (so that nobody restores from what is about to
be half deleted) and notes that it is to be deleted; the driver deletes it; the index notes that it is gone. A driver that dies
leaves the second step to the next one.

Never: a savepoint of a stop, a drain or an eviction; the newest of all; one that a StreamJob of the namespace restores from. For
that they are listed, and only when one is about to go.
"""

from __future__ import annotations

import re
from datetime import datetime

from ..api.storage import Retained
from ..api.types import duration, moment, timestamp
from ..protocol import index as indices
from ..protocol.index import Index
from ..protocol.messages import SAVEPOINT_ID, SavepointDeletion
from .actions import Action, DeleteSavepoints, WriteIndex
from .case import Case
from .observe import Observed


def tidy(c: Case) -> tuple[Action, ...]:
    """The next step, while the driver runs and writes no savepoint."""
    index, word, asked = c.o.index, c.o.driver, c.s.savepoint_request
    if index is None or word is None or (asked is not None and not asked.over):
        return ()
    if c.o.restored_from is None:
        return ()  # nobody has looked: nothing was about to go
    kept = {_plain(s) for s in c.o.restored_from}
    expired = [s for s in surplus(index, c.o.job.spec.savepoint.retained, c.now) if _plain(s) not in kept]
    if expired:
        return (WriteIndex(indices.retire(index, expired), c.o.index_version),)
    if done := set(index.to_delete) & set(word.deleted):
        return (WriteIndex(indices.gone(index, done, timestamp(c.now)), c.o.index_version),)
    going = tuple(s for s in index.to_delete if _plain(s) not in kept)
    if going and deletion_token(going) not in c.o.acknowledged:
        return (DeleteSavepoints(SavepointDeletion(c.s.epoch, going)),)
    return ()


def about_to_go(o: Observed, now: datetime) -> bool:
    """Whether it has to be known which savepoints other jobs restore from."""
    if o.driver is None or o.index is None:
        return False
    return bool(o.index.to_delete or surplus(o.index, o.job.spec.savepoint.retained, now))


def surplus(index: Index, retained: Retained, now: datetime) -> list[str]:
    """The places of savepoints beside the run that are too many, or too old."""
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
    """However many slashes follow the scheme or stand at the end, it is the same place."""
    return re.sub(r"^file:/+", "file:/", savepoint).rstrip("/")


def deletion_token(savepoints: tuple[str, ...]) -> str:
    """How a deletion stands among the acknowledged commands."""
    return " ".join(("delete", *savepoints))
