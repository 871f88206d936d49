"""The index: which checkpoints of a job have completed, with the finished flag of every operator.

It lives in a ConfigMap (at most 1 MiB) that the controller writes with optimistic locking. A driver is torn down only
after its final checkpoint is in here. The index is bounded: of retained checkpoints only the newest few matter, since all of
them point into the same Spark directories, so they go before any savepoint does; savepoints that fall out of the index stay on
storage.

Version 3 adds the savepoints that were deleted because the job is to keep only so many. An index that has none is still
written as version 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from . import codec
from .errors import FormatError
from .manifest import check_version
from .records import CheckpointRecord

KEY = "index.json"
FORMAT = "streamjob.index"
VERSION, WITHOUT_DELETED = 3, 2
SIZE_LIMIT = 900 << 10  # bytes; a ConfigMap holds 1 MiB
MAX_RECORDS = 200
MAX_DELETED = 50  # that are gone; those that are still to be deleted are all remembered


@dataclass(frozen=True)
class DeletedSavepoint:
    """It was taken out of the index, and then deleted. `at`: when it was gone (RFC 3339, UTC, seconds); None: not yet."""

    savepoint: str
    checkpoint: int
    at: str | None = None


@dataclass(frozen=True)
class Index:
    """`job_uid` is the StreamJob's own uid; `checkpoints` ascend by number, `deleted` is in the order of the decisions."""

    format: str
    version: int
    job_uid: str
    checkpoints: tuple[CheckpointRecord, ...]
    deleted: tuple[DeletedSavepoint, ...] = ()

    @property
    def to_delete(self) -> tuple[str, ...]:
        """Places that hold no savepoint of the index any more, and may not be gone yet."""
        return tuple(d.savepoint for d in self.deleted if d.at is None)

    @property
    def latest(self) -> CheckpointRecord | None:
        return self.checkpoints[-1] if self.checkpoints else None

    @property
    def latest_savepoint(self) -> CheckpointRecord | None:
        return next((c for c in reversed(self.checkpoints) if c.savepoint), None)

    @property
    def next_id(self) -> int:
        return self.latest.checkpoint + 1 if self.latest else 1


def empty(job_uid: str) -> Index:
    return Index(FORMAT, WITHOUT_DELETED, job_uid, ())


def add(index: Index, record: CheckpointRecord) -> Index:
    """The index with `record` in it, cut to its bounds; the same index if it is there already (V8).

    A number that is taken by another checkpoint is an error of ours: numbers are given out by the driver that the
    epoch admits, which starts from `next_id`. A final report may have had to leave out the record's stages: it is
    still the same checkpoint, and what is known of its stages stays. So is one that a later epoch has brought to its end, whose
    own died before its sinks had committed.

    :raises ValueError: the number is taken. :raises FormatError: the record alone is larger than an index.
    """
    known = next((c for c in index.checkpoints if c.checkpoint == record.checkpoint), None)
    if known is not None:
        if known.savepoint is None and any(d.savepoint == record.savepoint for d in index.deleted):
            return index  # the driver that took it still speaks of it
        if record.committed in (known.committed, replace(known, stages=())):
            return index
        same = _without_epoch(known) == _without_epoch(record)
        taken_over = same and known.uncommitted and known.epoch < record.epoch
        if known != replace(record, stages=()) and not taken_over:
            raise ValueError(f"checkpoint {record.checkpoint} is in the index with other contents")
    others = [c for c in index.checkpoints if c.checkpoint != record.checkpoint]
    records = sorted((*others, record), key=lambda c: c.checkpoint)
    while len(records) > MAX_RECORDS:
        records.remove(_least(records))
    grown = replace(index, checkpoints=tuple(records))
    while len(dumps(grown)) > SIZE_LIMIT:
        if len(grown.checkpoints) == 1:
            raise FormatError(
                f"checkpoint {record.checkpoint} does not fit into {SIZE_LIMIT} bytes",
                remedy="Give the job fewer stages",
            )
        records.remove(_least(records))
        grown = replace(grown, checkpoints=tuple(records))
    return grown


def _least(records: list[CheckpointRecord]) -> CheckpointRecord:
    """What matters least: the oldest that is no savepoint, else the oldest; never the newest."""
    return next((r for r in records[:-1] if r.savepoint is None), records[0])


def retire(index: Index, savepoints: Iterable[str]) -> Index:
    """They are about to be deleted: from now on nothing is restored from them. Their checkpoints stay, as checkpoints."""
    gone = set(savepoints)
    found = [c for c in index.checkpoints if c.savepoint in gone]
    kept = tuple(replace(c, savepoint=None) if c.savepoint in gone else c for c in index.checkpoints)
    entries = tuple(DeletedSavepoint(c.savepoint, c.checkpoint) for c in found if c.savepoint)
    return _bounded(replace(index, version=VERSION, checkpoints=kept, deleted=(*index.deleted, *entries)))


def gone(index: Index, savepoints: Iterable[str], at: str) -> Index:
    """They have been deleted."""
    named = set(savepoints)
    entries = tuple(replace(d, at=at) if d.at is None and d.savepoint in named else d for d in index.deleted)
    return _bounded(replace(index, deleted=entries))


def _bounded(index: Index) -> Index:
    done = [d for d in index.deleted if d.at is not None]
    dropped = set(done[:-MAX_DELETED])
    return replace(index, deleted=tuple(d for d in index.deleted if d not in dropped))


def committed(index: Index, epoch: int) -> Index:
    """A driver of `epoch` has left in order: what was pre-committed for the latest checkpoint is committed, and the epoch is the
    one that the checkpoint ended."""
    latest = index.latest
    if latest is None or not latest.uncommitted:
        return index
    settled = replace(latest.committed, epoch=max(latest.epoch, epoch))
    return replace(index, checkpoints=(*index.checkpoints[:-1], settled))


def _without_epoch(record: CheckpointRecord) -> CheckpointRecord:
    return replace(record.committed, epoch=0)


def dumps(index: Index) -> str:
    if index.version == VERSION:
        return codec.dumps(index)
    plain = codec.to_plain(index)
    del plain["deleted"]
    return codec.dumps(plain)


def loads(text: str, where: str) -> Index:
    """:raises UnknownVersion: of a newer StreamJob, to be left untouched. :raises FormatError: malformed."""
    plain = check_version(text, FORMAT, VERSION, where, 1 << 20, oldest=WITHOUT_DELETED)
    try:
        index = codec.from_plain(Index, plain)
    except FormatError as e:
        raise FormatError(f"{where}: {e.message}") from None
    numbers = [0, *(c.checkpoint for c in index.checkpoints)]
    if any(a >= b for a, b in itertools.pairwise(numbers)):
        raise FormatError(f"{where}: checkpoints do not ascend")
    return index
