"""The checkpoints and savepoints of a job: its index, the ConfigMap `<job>-checkpoints`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...protocol.formats.savepoint_cause import cause
from ..printing.times import moment
from .job import Obj

KEY = "index.json"


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in the index.

    :param scenario: what it ended (Stop, Drain, EndOfInput), None if the job kept running.
    :param savepoint: location of the copy, None if there is none.
    :param why: why it was taken, in one word.
    """

    number: int
    epoch: int
    scenario: str | None
    request: str | None
    savepoint: str | None
    completed: datetime | None
    why: str
    stages: tuple[Obj, ...] = ()

    @property
    def name(self) -> str | None:
        """The name of the savepoint: the last part of its location."""
        return self.savepoint.rstrip("/").rpartition("/")[2] if self.savepoint else None


@dataclass(frozen=True)
class Deleted:
    """A savepoint that has left the index.

    :param at: when its files were deleted; None: not yet.
    """

    savepoint: str
    checkpoint: int
    at: datetime | None


@dataclass(frozen=True)
class Index:
    """What the index says.

    :param problem: why it cannot be read; None if it can.
    """

    checkpoints: tuple[Checkpoint, ...] = ()
    deleted: tuple[Deleted, ...] = ()
    problem: str | None = None

    @property
    def latest(self) -> Checkpoint | None:
        return self.checkpoints[-1] if self.checkpoints else None

    @property
    def savepoints(self) -> tuple[Checkpoint, ...]:
        """Newest first."""
        return tuple(c for c in reversed(self.checkpoints) if c.savepoint)

    def of_epoch(self, epoch: int) -> tuple[Checkpoint, ...]:
        return tuple(c for c in self.checkpoints if c.epoch == epoch)


def index(config_map: Obj | None) -> Index:
    """The index in this ConfigMap.

    :param config_map: None: it does not exist.
    """
    if config_map is None:
        return Index(problem="there is none yet")
    text = (config_map.get("data") or {}).get(KEY)
    if not text:
        return Index(problem=f"the ConfigMap has no {KEY}")
    return parsed(text)


def parsed(text: str) -> Index:
    """The index of this JSON text."""
    try:
        plain = json.loads(text)
        return Index(
            tuple(_checkpoint(c) for c in plain["checkpoints"]),
            tuple(
                Deleted(d["savepoint"], d["checkpoint"], moment(d.get("at")))
                for d in plain.get("deleted", ())
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        return Index(problem=f"it cannot be read: {type(e).__name__} {e}")


def _checkpoint(plain: dict[str, Any]) -> Checkpoint:
    return Checkpoint(
        number=plain["checkpoint"],
        epoch=plain["epoch"],
        scenario=plain.get("scenario"),
        request=plain.get("request_id"),
        savepoint=plain.get("savepoint"),
        completed=moment(plain.get("completed_at")),
        why=cause(plain.get("request_id"), plain.get("scenario")),
        stages=tuple(plain.get("stages") or ()),
    )
