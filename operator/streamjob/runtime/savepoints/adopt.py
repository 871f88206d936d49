"""A savepoint of checkpoint directories that no StreamJob has run: of plain PySpark jobs, which have to have ended.

The directories are only read. A StreamJob could begin with them by `restoreFrom.checkpoints` as well; a savepoint can be
verified, moved, and restored many times, also when the directories are gone.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyspark

from ...protocol import adoption
from ...protocol.adoption import BareDirectory
from ...protocol.asking import ADOPTION
from ...protocol.manifest import Manifest
from ...protocol.records import JobRef, OperatorRecord
from ..spark.checkpoint_dir import CheckpointDir, NotAtBoundary
from ..storage.clock import now
from ..storage.hadoop import HadoopFiles
from ..storage.parallel import Progress
from .layout import SavepointExists, SavepointIncomplete, read_manifest
from .write import write_savepoint

NOBODY = JobRef("", "", "")


def adopt_directories(
    files: HadoopFiles, found: Mapping[str, str], target: str, *, progress: Progress | None = None
) -> Manifest:
    """:param found: by the name of the query, the URI of its checkpoint directory.

    :raises NotAtBoundary: one has a batch half done, or a query runs from it. :raises SavepointExists: `target` is taken.
    :raises FormatError, HalfDoneBatches, UnknownVersion: it is no checkpoint directory, or none that can be taken over.
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
                f"{directory.uri} has batch {directory.latest_offset()} half done, and a savepoint has whole ones",
                remedy="Let its job run that batch and end, or begin a StreamJob with the directory itself, which runs it first: "
                f"restoreFrom.checkpoints {directory.uri}",
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
    """What is found in the checkpoint directory of a query that no StreamJob has run."""
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
