"""Deletes the incomplete savepoints of this job when the next one is requested."""

from __future__ import annotations

import logging

from ...protocol.errors import StreamJobError
from ...protocol.formats import manifest as manifests
from ...protocol.formats.records import JobRef
from ...protocol.messages.commands import SAVEPOINT_ID
from ...storage.hadoop import HadoopFiles, NotFound
from .catalog import delete_savepoint
from .layout import read_begun
from .shared_files import names_in

log = logging.getLogger("streamjob")


def delete_half_written(files: HadoopFiles, job: JobRef, target: str) -> None:
    """Delete the incomplete live savepoints of this job in the root of `target`.

    Their drivers died, or the files could not be deleted at the time. Nobody is still writing them: a job has
    one driver, and it writes one live savepoint at a time.

    Savepoints of a stop or a drain are never touched. A savepoint that cannot be deleted stays and is logged;
    `savepoint list` shows it.
    """
    root, _, name = target.rpartition("/")
    try:
        folders = [f.path for f in files.list(root) if f.is_dir and f.path not in (name, manifests.SHARED)]
    except NotFound:
        return
    for folder in (f for f in folders if f.startswith(SAVEPOINT_ID)):
        uri = f"{root}/{folder}"
        try:
            if manifests.NAME in names_in(files, uri):
                continue
            begun = read_begun(files, uri)
            if begun is not None and begun.job == job and begun.request_id == folder:
                log.info("savepoint %s was left half written: it is deleted", uri)
                delete_savepoint(files, uri)
        except StreamJobError as e:
            log.warning("savepoint %s was left half written and cannot be deleted: %s", uri, e)
