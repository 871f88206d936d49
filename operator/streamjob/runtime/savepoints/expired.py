"""Savepoints that the job is not to keep any longer (`spec.savepoint.retained`): the driver deletes them, and nothing else.

The controller has taken them out of the index before. What is deleted is decided there; here it is only made sure that it is a
savepoint of this job, taken beside the run. A savepoint of a stop or a drain, or of another job, is never deleted.
"""

from __future__ import annotations

import logging
from typing import ClassVar

from ...protocol import manifest as manifests
from ...protocol.errors import StreamJobError
from ...protocol.messages import SAVEPOINT_ID
from ...protocol.records import JobRef
from ..storage.hadoop import HadoopFiles
from .catalog import delete_savepoint
from .layout import read_begun, read_manifest
from .shared_files import names_in

log = logging.getLogger("streamjob")


class NotRetired(StreamJobError):
    """It is none of the savepoints that a driver may delete."""

    reason: ClassVar[str] = "SavepointNotDeleted"


def delete_retired(files: HadoopFiles, job: JobRef, savepoint: str) -> None:
    """May be repeated: one that is gone is gone.

    :raises NotRetired: it is another job's, or was not taken beside the run; nothing was deleted.
    :raises FormatError: its manifest cannot be read, so that it is not known whose it is. :raises StorageError:
    """
    name = savepoint.rstrip("/").rpartition("/")[2]
    inside = names_in(files, savepoint)
    if manifests.NAME in inside:
        manifest = read_manifest(files, savepoint)
        found, request_id = manifest.job, manifest.checkpoint.request_id
        beside = manifest.checkpoint.scenario is None
    else:
        begun = read_begun(files, savepoint)
        if begun is None and inside:
            raise NotRetired(f"{savepoint} is no savepoint", remedy="See what lies there")
        # A deletion that was cut off has left `begun.json`, or nothing but files that nobody has.
        found = begun.job if begun else job
        request_id, beside = (begun.request_id if begun else name), True
    if found != job or request_id != name or not name.startswith(SAVEPOINT_ID) or not beside:
        raise NotRetired(
            f"{savepoint} is of {found.namespace}/{found.name} for {request_id}, and is not deleted",
            remedy="Delete it with `savepoint delete` if it is to go",
        )
    deleted = delete_savepoint(files, savepoint)
    log.info(
        "savepoint %s is not kept any longer: %d files and %d shared ones are deleted",
        savepoint,
        deleted.files,
        deleted.shared.files,
    )
