"""The index: which checkpoints of a job have completed, with the finished flag of every operator.

It is stored in a ConfigMap (at most 1 MiB) that the controller writes with optimistic locking. A driver is
torn down only after its final checkpoint is committed to the index. The index is bounded. All retained
checkpoints point into the same Spark directories, so only the newest few matter, and they are dropped before
any savepoint. Savepoints that are dropped from the index stay in storage.

Version 3 adds the savepoints that were deleted because the job keeps only a limited number. An index without
any is still written as version 2.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..errors import FormatError
from . import codec
from .manifest import check_version
from .records import CheckpointRecord

KEY = "index.json"
FORMAT = "streamjob.index"
VERSION, WITHOUT_DELETED = 3, 2
SIZE_LIMIT = 900 << 10  # bytes; a ConfigMap holds 1 MiB
MAX_RECORDS = 200
MAX_DELETED = 50  # entries of savepoints that are gone; those that are still to be deleted are all kept


@dataclass(frozen=True)
class DeletedSavepoint:
    """A savepoint that was removed from the index in order to be deleted.

    :param at: time of the deletion (RFC 3339, UTC, seconds); None: not deleted yet.
    """

    savepoint: str
    checkpoint: int
    at: str | None = None


@dataclass(frozen=True)
class Index:
    """The checkpoints of one job.

    :param job_uid: the StreamJob's own uid.
    :param checkpoints: ascending by number.
    :param deleted: in the order of the decisions.
    """

    format: str
    version: int
    job_uid: str
    checkpoints: tuple[CheckpointRecord, ...]
    deleted: tuple[DeletedSavepoint, ...] = ()

    @property
    def to_delete(self) -> tuple[str, ...]:
        """URIs that no longer belong to a savepoint of the index, and whose files may still exist."""
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
    """Add `record` and drop what exceeds the bounds of the index. If the record is already there, nothing
    changes (V8).

    A number that another checkpoint has taken is a bug in StreamJob: the driver that the epoch admits assigns
    the numbers, and starts from `next_id`. A final report may have had to omit the record's stages. It is
    still the same checkpoint, and the index keeps what it knows of the stages. It is also the same checkpoint
    if a later epoch completes it, because its own epoch died before the sinks had committed; under another
    number it then replaces the first one, as both are of one savepoint. And a request has one final
    checkpoint: if a query has started while it was taken, another one with that query replaces it.

    :raises ValueError: another checkpoint has this number.
    :raises FormatError: the record alone is larger than an index.
    """
    known = next((c for c in index.checkpoints if c.checkpoint == record.checkpoint), None)
    if known is not None:
        if known.savepoint is None and any(d.savepoint == record.savepoint for d in index.deleted):
            return index  # retired, but the driver that took it still reports it
        if record.committed in (known.committed, replace(known, stages=())):
            return index
        same = _without_epoch(known) == _without_epoch(record)
        if known != replace(record, stages=()) and not (same and _is_left_to(record, known)):
            raise ValueError(f"checkpoint {record.checkpoint} is in the index with other contents")
    if any(_is_done_again(record, c) for c in index.checkpoints):
        return index
    others = [
        c for c in index.checkpoints if c.checkpoint != record.checkpoint and not _is_done_again(c, record)
    ]
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


def _is_done_again(known: CheckpointRecord, record: CheckpointRecord) -> bool:
    """Whether the same request has been done again: by a later epoch, to commit what was left of it, or by
    its own, with one more query.
    """
    same = known.request_id is not None and (known.request_id, known.savepoint) == (
        record.request_id,
        record.savepoint,
    )
    final = None not in (known.scenario, record.scenario) and known.epoch == record.epoch
    return same and (_is_left_to(record, known) or (final and known.checkpoint < record.checkpoint))


def _is_left_to(record: CheckpointRecord, known: CheckpointRecord) -> bool:
    """Whether the epoch of `known` died before its sinks had committed, and that of `record` followed it."""
    return known.uncommitted and known.epoch < record.epoch


def _least(records: list[CheckpointRecord]) -> CheckpointRecord:
    """The least important record: the oldest that is no savepoint, else the oldest; never the newest."""
    return next((r for r in records[:-1] if r.savepoint is None), records[0])


def retire(index: Index, savepoints: Iterable[str]) -> Index:
    """Remove savepoints that are about to be deleted: from now on nothing is restored from them. Their
    checkpoints stay, as checkpoints.
    """
    gone = set(savepoints)
    found = [c for c in index.checkpoints if c.savepoint in gone]
    kept = tuple(replace(c, savepoint=None) if c.savepoint in gone else c for c in index.checkpoints)
    entries = tuple(DeletedSavepoint(c.savepoint, c.checkpoint) for c in found if c.savepoint)
    return _bounded(replace(index, version=VERSION, checkpoints=kept, deleted=(*index.deleted, *entries)))


def gone(index: Index, savepoints: Iterable[str], at: str) -> Index:
    """Note that savepoints have been deleted.

    :param at: time of the deletion (RFC 3339, UTC, seconds).
    """
    named = set(savepoints)
    entries = tuple(replace(d, at=at) if d.at is None and d.savepoint in named else d for d in index.deleted)
    return _bounded(replace(index, deleted=entries))


def _bounded(index: Index) -> Index:
    done = [d for d in index.deleted if d.at is not None]
    dropped = set(done[:-MAX_DELETED])
    return replace(index, deleted=tuple(d for d in index.deleted if d not in dropped))


def committed(index: Index, epoch: int) -> Index:
    """Note that a driver of `epoch` has exited in order. What was pre-committed for the latest checkpoint is
    committed, and the checkpoint gets the epoch that it ended.
    """
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
    """Parse the index found at `where` (for messages only).

    :raises UnknownVersion: written by a newer StreamJob; it must be left untouched.
    :raises FormatError: malformed.
    """
    plain = check_version(text, FORMAT, VERSION, where, 1 << 20, oldest=WITHOUT_DELETED)
    try:
        index = codec.from_plain(Index, plain)
    except FormatError as e:
        raise FormatError(f"{where}: {e.message}") from None
    numbers = [0, *(c.checkpoint for c in index.checkpoints)]
    if any(a >= b for a, b in itertools.pairwise(numbers)):
        raise FormatError(f"{where}: checkpoints do not ascend")
    return index
