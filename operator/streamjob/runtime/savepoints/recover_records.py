"""Recovers the records of a job's checkpoints from the driver and from savepoints if the index is lost."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ...protocol.errors import StreamJobError
from ...protocol.formats import codec
from ...protocol.formats.records import CheckpointRecord
from ...protocol.messages.driver_config import DriverConfig
from ...protocol.messages.driver_status import KnownRecords
from ...storage.hadoop import HadoopFiles, NotFound
from .catalog import list_savepoints
from .layout import read_manifest

log = logging.getLogger("streamjob")

LIMIT = 600 << 10  # bytes of records in one status response


def known(
    config: DriverConfig, savepoints: Iterable[CheckpointRecord], own: Iterable[CheckpointRecord]
) -> dict[int, CheckpointRecord]:
    """Merge the records of the checkpoint that this epoch started from, of savepoints, and of the driver.

    A savepoint of an earlier epoch is left out if it is newer than the checkpoint that this epoch started
    from. It was never committed to the index: its driver died first, and the job resumed from an earlier
    checkpoint. A later epoch may have used its number again, and counts then. Otherwise nothing shows, one
    more epoch later, that the index never had it; it is whole, and does no harm there.

    :param savepoints: the records of the job's savepoints.
    :param own: the driver's own records.
    :returns: number of the checkpoint → its record.
    """
    latest = config.restore.latest
    before = latest.checkpoint if latest is not None else 0
    by_epoch = sorted(savepoints, key=lambda r: r.epoch)
    found = {r.checkpoint: r for r in by_epoch if r.checkpoint <= before or r.epoch == config.epoch}
    if latest is not None:
        found[latest.checkpoint] = latest
    return found | {r.checkpoint: r for r in own}


def known_records(
    files: HadoopFiles, config: DriverConfig, reached: int, own: Iterable[CheckpointRecord]
) -> KnownRecords:
    """The result of `known`: the newest records that fit into one response.

    :raises StorageError: the folder of the savepoints cannot be listed.
    """
    found = known(config, _of_savepoints(files, config), own)
    kept: list[CheckpointRecord] = []
    size = 0
    for number in sorted(found, reverse=True):
        size += len(codec.dumps(found[number]))
        if size > LIMIT:
            break
        kept.append(found[number])
    return KnownRecords(reached, tuple(reversed(kept)))


def _of_savepoints(files: HadoopFiles, config: DriverConfig) -> list[CheckpointRecord]:
    root = (config.eviction_savepoint or "").rpartition("/")[0]
    try:
        listed = list_savepoints(files, root) if root else []
    except NotFound:
        return []
    records = []
    for one in listed:
        if one.problem is None and one.job == config.job:
            try:
                records.append(read_manifest(files, one.uri).checkpoint)
            except StreamJobError as e:  # deleted since
                log.info("%s", e)
    return records
