"""The index is lost and no driver ran that could have said what it knows: the record of the newest checkpoint is read from the
manifest of its savepoint, which the job's status names.

Before the session is there, because all that a driver does goes by this record: in a small JVM, which takes some five seconds.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import ClassVar

from ...protocol.errors import StreamJobError
from ...protocol.messages import DriverConfig
from ..jvm.standalone import SmallJvm
from ..savepoints.layout import read_manifest
from ..storage.hadoop import HadoopFiles

log = logging.getLogger("streamjob")

STORAGE = ("spark.hadoop.", "spark.jars")  # settings that it takes to read from where savepoints are


class SavepointForeign(StreamJobError):
    """It is of another job."""

    reason: ClassVar[str] = "SavepointForeign"


def with_record(config: DriverConfig) -> DriverConfig:
    """:raises SavepointForeign: :raises SavepointIncomplete, FormatError: there is no such savepoint. :raises StorageError:
    :raises NoJvm:"""
    savepoint = config.restore.recorded
    if savepoint is None or config.restore.latest is not None:
        return config
    jvm = SmallJvm({k: v for k, v in config.spark_conf.items() if k.startswith(STORAGE)})
    try:
        found = read_manifest(HadoopFiles(jvm), savepoint)
    finally:
        jvm.close()
    if found.job != config.job:
        raise SavepointForeign(
            f"{savepoint} is of {found.job.namespace}/{found.job.name} ({found.job.uid}), not of this job",
            remedy="Restore the job's index from a backup, or make a new StreamJob with restoreFrom.savepoint",
        )
    record = found.checkpoint
    log.warning(
        "the index is lost: checkpoint %d is taken from the manifest of %s", record.checkpoint, savepoint
    )
    exact = config.restore.exact and record.scenario is not None
    return replace(config, restore=replace(config.restore, latest=record, exact=exact, recorded=None))
