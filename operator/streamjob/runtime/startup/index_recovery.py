"""Recovers the newest checkpoint record when the index is lost and no running driver can report it.

The job's status names the checkpoint's savepoint, and the savepoint's manifest contains the record. The
record is read before there is a Spark session, because everything that the driver does depends on it. That
needs a small JVM, which takes about five seconds to start.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import ClassVar

from ...jvm.standalone import SmallJvm, of_storage
from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_config import DriverConfig
from ...storage.hadoop import HadoopFiles
from ..savepoints.layout import read_manifest

log = logging.getLogger("streamjob")


class SavepointForeign(StreamJobError):
    """The savepoint belongs to another job."""

    reason: ClassVar[str] = "SavepointForeign"


def with_record(config: DriverConfig) -> DriverConfig:
    """The configuration with `restore.latest` taken from the manifest of `restore.recorded`.

    It is returned unchanged if there is no recorded savepoint or `latest` is already known.

    :raises SavepointForeign: the savepoint belongs to another job.
    :raises SavepointIncomplete: there is no such savepoint.
    :raises FormatError: its manifest cannot be read.
    :raises StorageError: the storage cannot be read.
    :raises NoJvm: no JVM could be started.
    """
    savepoint = config.restore.recorded
    if savepoint is None or config.restore.latest is not None:
        return config
    jvm = SmallJvm(of_storage(config.spark_conf))
    try:
        found = read_manifest(HadoopFiles(jvm), savepoint)
    finally:
        jvm.close()
    if found.job != config.job:
        raise SavepointForeign(
            f"{savepoint} is of {found.job.namespace}/{found.job.name} ({found.job.uid}), not of this job",
            remedy="Restore the job's index from a backup, or make a new StreamJob with "
            "restoreFrom.savepoint",
        )
    record = found.checkpoint
    log.warning(
        "the index does not have checkpoint %d with its stages: it is taken from the manifest of %s",
        record.checkpoint,
        savepoint,
    )
    exact = config.restore.exact and record.scenario is not None
    return replace(config, restore=replace(config.restore, latest=record, exact=exact, recorded=None))
