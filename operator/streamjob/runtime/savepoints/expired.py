"""Deletes expired savepoints, those that `spec.savepoint.retained` no longer keeps.

The controller decides which savepoints expire and removes them from the index first. This module only checks
that each is an on-demand savepoint of this job, taken while the job ran. It never deletes a savepoint of a
stop, of a drain or of another job.
"""

from __future__ import annotations

import logging
from typing import ClassVar

from ...protocol.errors import StreamJobError
from ...protocol.formats import manifest as manifests
from ...protocol.formats.records import JobRef
from ...protocol.messages.commands import SAVEPOINT_ID
from ...storage.hadoop import HadoopFiles
from .catalog import delete_savepoint
from .layout import read_begun, read_manifest
from .shared_files import names_in

log = logging.getLogger("streamjob")


class NotRetired(StreamJobError):
    """The driver may not delete this savepoint."""

    reason: ClassVar[str] = "SavepointNotDeleted"


def delete_retired(files: HadoopFiles, job: JobRef, savepoint: str) -> None:
    """Delete an expired savepoint. May be repeated; a savepoint that no longer exists is no error.

    :raises NotRetired: the savepoint is another job's, or was not taken while the job ran; nothing was
        deleted.
    :raises FormatError: its manifest cannot be read, so its owner is unknown; nothing was deleted.
    :raises StorageError: the file system refused.
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
            raise NotRetired(f"{savepoint} is no savepoint", remedy="See what is there")
        # An interrupted deletion left `begun.json`, or only unused shared files in the root.
        found = begun.job if begun else job
        request_id, beside = (begun.request_id if begun else name), True
    if found != job or request_id != name or not name.startswith(SAVEPOINT_ID) or not beside:
        raise NotRetired(
            f"{savepoint} is of {found.namespace}/{found.name} for {request_id}, and is not deleted",
            remedy="Delete it with `savepoint delete` if nobody needs it",
        )
    deleted = delete_savepoint(files, savepoint)
    log.info(
        "savepoint %s is not kept any longer: %d files and %d shared ones are deleted",
        savepoint,
        deleted.files,
        deleted.shared.files,
    )
