"""Version 1: a bare Structured Streaming checkpoint directory of any PySpark job, taken over as a checkpoint record.

It has no manifest and no finished flags, so nothing in it has finished. The job may have been killed in the middle of a batch:
the query that goes on runs that one first, as Spark does after a crash, so the record has the batch before it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from . import codec
from .errors import FormatError, StreamJobError, UnknownVersion
from .manifest import stage_root
from .records import CheckpointRecord, OperatorRecord, StageRecord, TaskRecord

VERSION = 1
LOG_VERSIONS = (1, 2)  # of Spark's offset and commit logs
METADATA_LIMIT = 64 << 10  # bytes


class HalfDoneBatches(StreamJobError):
    """Several batches were begun and are not committed: asynchronous progress tracking, or files are missing."""

    reason = "BatchNotCommitted"


@dataclass(frozen=True)
class BareDirectory:
    """What was found in one query's directory.

    :param uid: the stage that it becomes; the query's name.
    :param metadata: the file `metadata`, None if there is none.
    :param offsets: numbers of the files in offsets/. :param commits: of those in commits/.
    :param log_versions: from the first lines of the newest files of both (`v1`).
    :param operators: as far as they are known.
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
    """The directories of a job as its checkpoint `number`. Nothing is written.

    :raises HalfDoneBatches: one is more than a batch behind what it has planned. :raises UnknownVersion: of a newer Spark.
    :raises FormatError: it is no checkpoint directory, or part of it is missing.
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
    """One directory as a stage of one task. Raises as `adopt`."""
    task = TaskRecord(0, found.location, _batch(found), query_id=_query_id(found))
    return StageRecord(found.uid, (task,), found.operators)


def _query_id(found: BareDirectory) -> str:
    stage_root(found.uid, 0)  # a name that no savepoint could hold is refused here, not years later
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
        raise HalfDoneBatches(
            f"{found.location}: the last {pending} batches up to {offset} were begun and are not committed",
            remedy="Start the query once more without asynchronous progress tracking, and let it commit",
        )
    return commit
