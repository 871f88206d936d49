"""What earlier savepoints of this job have left half written, when the next one is asked for."""

from __future__ import annotations

import logging

from ...protocol import manifest as manifests
from ...protocol.errors import StreamJobError
from ...protocol.messages import SAVEPOINT_ID
from ...protocol.records import JobRef
from ..storage.hadoop import HadoopFiles, NotFound
from .catalog import delete_savepoint
from .layout import read_begun
from .shared_files import names_in

log = logging.getLogger("streamjob")


def delete_half_written(files: HadoopFiles, job: JobRef, target: str) -> None:
    """Delete savepoints beside `target` that were begun for the running job and never completed: their drivers have died, or
    the place could not be cleaned then. A job has one driver, which writes one of them at a time: nobody writes these any more.

    Savepoints of a stop or a drain are left alone, complete or not. What cannot be deleted stays; `savepoint list` shows it.
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
