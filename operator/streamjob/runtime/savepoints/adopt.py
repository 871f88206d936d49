"""Writes a savepoint from checkpoint directories that no StreamJob has run: those of plain PySpark jobs.

The jobs must have ended. Their directories are only read. A StreamJob can also start from such directories
directly (`restoreFrom.checkpoints`), but a savepoint can be verified, moved, and restored many times, even
after the directories are deleted.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyspark

from ...protocol.formats.manifest import Manifest
from ...protocol.formats.records import JobRef, OperatorRecord
from ...protocol.formats.savepoint_cause import ADOPTION
from ...protocol.restore import adoption
from ...protocol.restore.adoption import BareDirectory
from ...storage.clock import now
from ...storage.hadoop import HadoopFiles
from ...storage.parallel import Progress
from ..spark.checkpoint_dir import CheckpointDir, NotAtBoundary
from .layout import SavepointExists, SavepointIncomplete, read_manifest
from .write import write_savepoint

NOBODY = JobRef("", "", "")


def adopt_directories(
    files: HadoopFiles, found: Mapping[str, str], target: str, *, progress: Progress | None = None
) -> Manifest:
    """Write a savepoint of the directories to `target`. May be repeated: an equal savepoint is kept.

    :param found: query name → URI of the query's checkpoint directory.
    :param target: URI of the savepoint.
    :returns: the manifest.
    :raises NotAtBoundary: a directory has an uncommitted batch, or a query runs from it.
    :raises SavepointExists: `target` holds another savepoint.
    :raises FormatError: a directory is not a checkpoint directory, or part of it is missing.
    :raises UncommittedBatches: a directory has more than one uncommitted batch.
    :raises UnknownVersion: a directory was written by a newer Spark.
    """
    directories = {(uid, 0): CheckpointDir(files, uri) for uid, uri in found.items()}
    bare = [bare_directory(directory, uid) for (uid, _), directory in directories.items()]
    record = adoption.adopt(
        bare, number=1, epoch=0, completed_at=now(), savepoint=target, request_id=ADOPTION
    )
    if (standing := _standing(files, target)) is not None:
        if standing.job == NOBODY and standing.checkpoint.stages == record.stages:
            return standing
        raise SavepointExists(f"{target} holds another savepoint", remedy="Choose another location")
    for directory in directories.values():
        if directory.latest_offset() != directory.latest_commit():
            raise NotAtBoundary(
                f"{directory.uri} has batch {directory.latest_offset()} uncommitted, and a savepoint has "
                "only committed batches",
                remedy="Let its job run that batch and end, or begin a StreamJob with the directory itself, "
                f"which runs it first: restoreFrom.checkpoints {directory.uri}",
            )
    return write_savepoint(
        files, NOBODY, record, directories, target, spark=pyspark.__version__, progress=progress
    )


def _standing(files: HadoopFiles, target: str) -> Manifest | None:
    try:
        return read_manifest(files, target)
    except SavepointIncomplete:
        return None


def bare_directory(directory: CheckpointDir, uid: str) -> BareDirectory:
    """Read the checkpoint directory of a query that no StreamJob has run."""
    operators = tuple(OperatorRecord(o.uid, o.kind, o.name, False) for o in directory.operators())
    planned, committed = directory.batches("offsets"), directory.batches("commits")
    return BareDirectory(
        uid,
        directory.uri,
        directory.metadata(),
        planned,
        committed,
        tuple(
            directory.log_version(log, max(of))
            for log, of in (("offsets", planned), ("commits", committed))
            if of
        ),
        operators,
    )
