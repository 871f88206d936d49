"""Selects the files of a checkpoint directory that a query needs to continue after batch N.

Of the two logs, these are the last entries (`ENTRIES`). Spark keeps a hundred of each, one to a file. They
would be most of the files of a small savepoint.

While the query keeps running, its directory has more than N needs. Batch N is committed, so everything that
belongs to it is written and no longer changes: the logs have one file per batch, and the state stores one per
version (batch N leaves version N + 1). Spark's maintenance writes snapshots of existing versions, and deletes
what is older than `spark.sql.streaming.minBatchesToRetain` batches.

- Later batches and versions are left out. Files without a version are copied as they are: the query's id, the
  sources' logs (a restored query reads their entries only up to the offsets of N), operators' metadata,
  RocksDB's SST files.
- RocksDB writes a snapshot `V.zip` after its SST files. So the directory is listed twice: a file with a
  version must be in the first listing; a file without one may appear in the second.
- If a file is missing when it is to be copied, Spark purged or replaced it. Nothing is lost as long as the
  log still has batch N after all files are copied: then Spark purged nothing that N needs.
"""

from __future__ import annotations

import re
from typing import ClassVar

from ...protocol.errors import StreamJobError
from ...storage.hadoop import FileInfo
from ..spark.checkpoint_dir import DRAINED, CheckpointDir

LOGS = ("offsets", "commits")
# The entries of each log that a savepoint has, at least. Spark's StreamExecution reads the last one and the
# one before it; the others are for those who look into a savepoint.
ENTRIES = 10
_VERSIONED = re.compile(
    r"([0-9]+)[._]"
)  # 7.delta, 7.snapshot, 7.zip, 7_<id>.changelog; not 000007-<uuid>.sst


class SavepointOutrun(StreamJobError):
    """The query ran so many batches during the copy that Spark purged the savepoint's batch."""

    reason: ClassVar[str] = "SavepointOutrun"
    retryable: ClassVar[bool] = True


def number_of(path: str) -> tuple[str, int] | None:
    """The batch or the state version that a file belongs to.

    :param path: relative to the checkpoint directory.
    :returns: `("batch", N)` or `("version", V)`; None if the file belongs to neither.
    """
    *folders, name = path.split("/")
    if folders in (["offsets"], ["commits"]) and name.isdigit():
        return "batch", int(name)
    if folders == ["streamjob", "state"] and name.removesuffix(".json").isdigit():
        return "batch", int(name.removesuffix(".json"))
    if "/".join(folders) == DRAINED:
        return "version", int(name)  # after the batch before it; a mark of later batches is not this query's
    if len(folders) > 2 and folders[0] == "state" and folders[1].isdigit() and folders[2].isdigit():
        found = _VERSIONED.match(name)
        return ("version", int(found[1])) if found else None
    return None


def without_old_entries(directory: CheckpointDir, found: list[FileInfo]) -> list[FileInfo]:
    """Leave out the entries of each log that nobody needs to continue.

    If the query was drained, `undrain` needs the entries of all batches of the drain and the one before them.

    :param found: files of the directory, those of its last batch included.
    """
    entries: dict[str, list[int]] = {}
    for file in found:
        log, _, name = file.path.rpartition("/")
        if log in LOGS and name.isdigit():
            entries.setdefault(log, []).append(int(name))
    if all(len(numbers) <= ENTRIES for numbers in entries.values()):
        return found
    kept = max(ENTRIES, directory.drain_batches() + 1)
    old = {f"{log}/{n}" for log, numbers in entries.items() for n in sorted(numbers)[:-kept]}
    return [f for f in found if f.path not in old]


def files_of(directory: CheckpointDir, batch: int | None, listed: list[list[FileInfo]]) -> list[FileInfo]:
    """The files that belong to `batch`, while the query keeps running.

    :param batch: None for the state before the first batch.
    :param listed: two listings of the directory, in the order in which they were made.
    :raises SavepointOutrun: the log does not have the batch, or no longer has it.
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
    return without_old_entries(directory, found)


def refuse_outrun(directory: CheckpointDir, batch: int | None, listed: set[str]) -> None:
    """Check, after the last file is copied, that Spark purged nothing that the batch needs.

    :param listed: paths that were to be copied.
    :raises SavepointOutrun: the log no longer has the batch, or the offsets of the batch before it.
    """
    there = {f"{log}/{n}" for log in LOGS for n in directory.batches(log)}
    # On a restart, Spark also reads the offsets of the batch before, if the log has them.
    before = f"offsets/{(batch or 0) - 1}"
    refuse_without(directory, batch, there if before not in listed or before in there else set())


def refuse_without(directory: CheckpointDir, batch: int | None, there: set[str]) -> None:
    """Check that the logs have the batch.

    :param there: paths that exist.
    :raises SavepointOutrun: `offsets/N` or `commits/N` is not among them.
    """
    if batch is None or all(f"{log}/{batch}" in there for log in LOGS):
        return
    raise SavepointOutrun(
        f"{directory.uri} does not have batch {batch} of the savepoint any more: the query was faster than "
        "the copy",
        remedy="Raise spark.sql.streaming.minBatchesToRetain, or the trigger's interval",
    )
