"""The files of a checkpoint directory that belong to one batch, while its query runs on.

Batch N is committed, so all that a query needs to go on behind it has been written, and nothing of it is changed any more:
logs have a file for each batch, state stores one for each version (version N + 1 is what batch N leaves). Spark's maintenance
writes snapshots of versions that there are, and deletes what is older than `spark.sql.streaming.minBatchesToRetain` batches.

- Later batches and versions are left out. What has no version is copied as it is: the query's id, the sources' logs (their
  entries are read up to what the offsets of N name), operators' metadata, RocksDB's SST files.
- A RocksDB snapshot `V.zip` is written after its SST files. So a directory is listed twice: what has a version has to be in the
  first listing, what has none may come with the second.
- A file that is gone when it should be copied was purged, or Spark has put something else in its place. That is no
  loss as long as the log still has batch N when all has been copied: then nothing was purged that N needs.
"""

from __future__ import annotations

import re
from typing import ClassVar

from ...protocol.errors import StreamJobError
from ..spark.checkpoint_dir import CheckpointDir
from ..storage.hadoop import FileInfo

LOGS = ("offsets", "commits")
_VERSIONED = re.compile(
    r"([0-9]+)[._]"
)  # 7.delta, 7.snapshot, 7.zip, 7_<id>.changelog; not 000007-<uuid>.sst


class SavepointOutrun(StreamJobError):
    """The query has run so many batches while it was copied that Spark has purged the one of the savepoint."""

    reason: ClassVar[str] = "SavepointOutrun"
    retryable: ClassVar[bool] = True


def number_of(path: str) -> tuple[str, int] | None:
    """What kind of number a file has, `batch` or `version`, and which. None: it belongs to none.

    :param path: below the checkpoint directory.
    """
    *folders, name = path.split("/")
    if folders in (["offsets"], ["commits"]) and name.isdigit():
        return "batch", int(name)
    if folders == ["streamjob", "state"] and name.removesuffix(".json").isdigit():
        return "batch", int(name.removesuffix(".json"))
    if len(folders) > 2 and folders[0] == "state" and folders[1].isdigit() and folders[2].isdigit():
        found = _VERSIONED.match(name)
        return ("version", int(found[1])) if found else None
    return None


def files_of(directory: CheckpointDir, batch: int | None, listed: list[list[FileInfo]]) -> list[FileInfo]:
    """The files that belong to `batch` (None: before the first), of two listings one after the other.

    :raises SavepointOutrun: the log does not have the batch (any more).
    """
    first, second = listed
    last = -1 if batch is None else batch
    before = {f.path for f in first}
    found = []
    for file in second:
        number = number_of(file.path)
        if number is None or (file.path in before and number[1] <= last + (number[0] == "version")):
            found.append(file)
    refuse_without(directory, batch, {f.path for f in found})
    return found


def refuse_outrun(directory: CheckpointDir, batch: int | None, listed: set[str]) -> None:
    """After the last file has been copied. :param listed: paths that were to be copied. :raises SavepointOutrun: see there."""
    there = {f"{log}/{n}" for log in LOGS for n in directory.batches(log)}
    # Spark reads the entry before the last one too, where there is one.
    before = f"offsets/{(batch or 0) - 1}"
    refuse_without(directory, batch, there if before not in listed or before in there else set())


def refuse_without(directory: CheckpointDir, batch: int | None, there: set[str]) -> None:
    """:raises SavepointOutrun: an entry of the batch is not among the files that are there."""
    if batch is None or all(f"{log}/{batch}" in there for log in LOGS):
        return
    raise SavepointOutrun(
        f"{directory.uri} does not have batch {batch} of the savepoint any more: the query was faster than the copy",
        remedy="Raise spark.sql.streaming.minBatchesToRetain, or the trigger's interval",
    )
