"""Format version 1: adopts the bare Structured Streaming checkpoint directory of any PySpark job as a
checkpoint record.

Such a directory has no manifest and no finished flags, so nothing in it counts as finished. The job may have
been killed in the middle of a batch. The resumed query reruns an uncommitted batch first, as Spark does after
a crash, so the record holds the batch before it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import FormatError, StreamJobError, UnknownVersion
from ..formats import codec
from ..formats.manifest import stage_root
from ..formats.records import CheckpointRecord, OperatorRecord, StageRecord, TaskRecord

VERSION = 1
LOG_VERSIONS = (1, 2)  # of Spark's offset and commit logs
METADATA_LIMIT = 64 << 10  # bytes


class UncommittedBatches(StreamJobError):
    """Several batches are uncommitted: asynchronous progress tracking was on, or files are missing."""

    reason = "BatchNotCommitted"


@dataclass(frozen=True)
class BareDirectory:
    """The content of one query's checkpoint directory.

    :param uid: uid of the stage that the directory becomes: the query's name.
    :param metadata: content of the file `metadata`, None if there is none.
    :param offsets: batch numbers of the files in offsets/.
    :param commits: batch numbers of the files in commits/.
    :param log_versions: versions from the first line (`v1`) of the newest file in each of the two logs.
    :param operators: the operators, as far as they are known.
    """

    uid: str
    location: str
    metadata: bytes | None
    offsets: tuple[int, ...]
    commits: tuple[int, ...]
    log_versions: tuple[int, ...] = ()
    operators: tuple[OperatorRecord, ...] = ()


def adopt(
    found: Iterable[BareDirectory],
    number: int,
    epoch: int,
    completed_at: str,
    *,
    savepoint: str | None = None,
    request_id: str | None = None,
) -> CheckpointRecord:
    """Make a job's checkpoint directories its checkpoint `number`. Writes nothing.

    :raises UncommittedBatches: a directory has more than one uncommitted batch.
    :raises UnknownVersion: a newer Spark wrote a directory's logs.
    :raises FormatError: a directory is not a checkpoint directory, is incomplete, or has the same uid as
        another one.
    """
    directories = tuple(found)
    if len({d.uid for d in directories}) != len(directories):
        raise FormatError(
            "two checkpoint directories for one stage", remedy="Give each query a name of its own"
        )
    stages = tuple(adopted_stage(d) for d in directories)
    return CheckpointRecord(
        checkpoint=number,
        epoch=epoch,
        scenario=None,
        request_id=request_id,
        savepoint=savepoint,
        completed_at=completed_at,
        stages=stages,
    )


def adopted_stage(found: BareDirectory) -> StageRecord:
    """Make one directory a stage with one task. Raises the same errors as `adopt`."""
    task = TaskRecord(0, found.location, _batch(found), query_id=_query_id(found))
    return StageRecord(found.uid, (task,), found.operators)


def _query_id(found: BareDirectory) -> str:
    stage_root(found.uid, 0)  # refuses here, not years later, a name that no savepoint can hold
    if found.metadata is None:
        raise FormatError(
            f"{found.location}: no file 'metadata', so it is no checkpoint directory of a query",
            remedy="Name the directory that the query had as its checkpointLocation",
        )
    plain = codec.parse(found.metadata, f"{found.location}/metadata", METADATA_LIMIT)
    text = plain.get("id") if isinstance(plain, dict) else None
    try:
        return str(uuid.UUID(text if isinstance(text, str) else ""))
    except ValueError:
        raise FormatError(
            f"{found.location}/metadata: no query id in it", remedy="Restore a copy of it"
        ) from None


def _batch(found: BareDirectory) -> int | None:
    newer = [v for v in found.log_versions if v not in LOG_VERSIONS]
    if newer:
        raise UnknownVersion(
            f"{found.location}: log version {newer[0]}, this StreamJob reads {LOG_VERSIONS[-1]}",
            remedy="Upgrade StreamJob first",
        )
    offset, commit = max(found.offsets, default=None), max(found.commits, default=None)
    if min((*found.offsets, *found.commits), default=0) < 0:
        raise FormatError(f"{found.location}: a batch with a negative number")
    if offset is None and commit is None:
        return None
    if offset is None or (commit is not None and commit > offset):
        raise FormatError(
            f"{found.location}: batch {commit} is committed and its offsets are missing",
            remedy="Restore a copy of it, with all files below offsets/",
        )
    pending = offset - (-1 if commit is None else commit)
    if pending > 1:
        raise UncommittedBatches(
            f"{found.location}: the last {pending} batches up to {offset} were begun and are not committed",
            remedy="Start the query once more without asynchronous progress tracking, and let it commit",
        )
    return commit
