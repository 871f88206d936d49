"""The log of Spark's file source, `sources/KEY/N` in a checkpoint directory: which files the source has read.

    N               the files of entry N: the line "v1", then a JSON line for each file
    N.compact       the same for entry N and all entries before it

From FileStreamSource, FileStreamSourceLog and CompactibleFileStreamLog of
org.apache.spark.sql.execution.streaming. Entries have other numbers than the query's batches: batch B reads
up to the entry that its offset names, `{"logOffset":N}`.
"""

from __future__ import annotations

import json
from typing import Any

from ....protocol.formats import splits
from ....storage.hadoop import NotFound
from ..checkpoint_dir import CheckpointDir, MalformedCheckpoint

COMPACT = ".compact"
LIMIT = 256 << 20  # bytes of an entry; a compacted one has a line for each file of the folder


def files_read(directory: CheckpointDir, batch: int) -> list[str]:
    """The paths that a query has read up to and including `batch`, percent-encoded as Spark writes them.

    :raises MalformedCheckpoint: a log does not have Spark's format, or part of it is missing.
    """
    found: list[str] = []
    for key, position in directory.source_offsets(batch).items():
        latest = log_offset(position)
        if latest is not None and latest >= 0:
            found += _entries(directory, f"sources/{key}", latest)
    return found


def newest_files(directory: CheckpointDir, source: str) -> list[str]:
    """The paths in a source's newest entry, percent-encoded. A compacted one has those of all entries."""
    names = _numbered(directory, f"sources/{source}")
    listed = _lines(directory, f"sources/{source}/{names[max(names)]}") if names else []
    return [str(f["path"]) for f in listed]


def files_ahead(directory: CheckpointDir, source: str, position: str | None) -> list[str]:
    """The paths that a source has listed but not read up to its position, percent-encoded.

    They belong to a planned batch, or to later batches of a query that has continued from there.

    :param source: its key, see `offset_log`.
    :param position: None for a source that has read nothing.
    :raises MalformedCheckpoint: the log does not have Spark's format.
    """
    offset = log_offset(position)
    after = -1 if offset is None else offset
    log = f"sources/{source}"
    names = {n: name for n, name in _numbered(directory, log).items() if n > after}
    whole = max((n for n, name in names.items() if name.endswith(COMPACT)), default=None)
    wanted = sorted(n for n in names if whole is None or n >= whole)
    listed = [line for n in wanted for line in _lines(directory, f"{log}/{names[n]}")]
    return [str(f["path"]) for f in listed if int(f["batchId"]) > after]


def files_between(directory: CheckpointDir, source: str, after: int, upto: int) -> list[tuple[str, int]]:
    """The files of a source's entries above `after`, up to `upto`: path, percent-encoded, and time of change
    in milliseconds since 1970.

    :raises MalformedCheckpoint: as `files_read`.
    """
    listed = _whole_entries(directory, f"sources/{source}", after, upto)
    return [(str(f["path"]), int(f["timestamp"])) for f in listed if after < int(f["batchId"]) <= upto]


def log_offset(position: str | None) -> int | None:
    """The entry up to which a batch reads, None if the position is not one of a file source."""
    try:
        plain = json.loads(position or "")
    except ValueError:
        return None
    offset = plain.get("logOffset") if isinstance(plain, dict) else None
    return offset if isinstance(offset, int) else None


def _entries(directory: CheckpointDir, log: str, latest: int) -> list[str]:
    files = _whole_entries(directory, log, -1, latest)
    return [str(f["path"]) for f in files if int(f["batchId"]) <= latest]


def _whole_entries(directory: CheckpointDir, log: str, after: int, latest: int) -> list[dict[str, Any]]:
    """The lines of the entries that tell what was read above `after` and up to `latest`, and maybe more."""
    names = _numbered(directory, log)
    compacted = [n for n, name in names.items() if name.endswith(COMPACT)]
    first = max((n for n in compacted if n <= latest), default=None)
    wanted = list(range(max(0 if first is None else first, after + 1), latest + 1))
    if any(n not in names for n in wanted):
        # Spark deletes entries that a later compacted entry contains.
        wanted = sorted(n for n in compacted if n > latest)[:1]
        if not wanted:
            raise MalformedCheckpoint(
                f"{directory.uri}/{log} should say what was read up to entry {latest}, and entries are "
                "missing"
            )
    return [line for n in wanted for line in _lines(directory, f"{log}/{names[n]}")]


def _numbered(directory: CheckpointDir, log: str) -> dict[int, str]:
    try:
        names = [f.path for f in directory.files.list(f"{directory.uri}/{log}")]
    except NotFound:
        return {}
    numbers = {int(n): n for n in names if n.isdigit()}
    whole = {
        int(n.removesuffix(COMPACT)): n
        for n in names
        if n.removesuffix(COMPACT).isdigit() and n not in numbers.values()
    }
    return {**numbers, **whole}


def _lines(directory: CheckpointDir, path: str) -> list[dict[str, Any]]:
    text = directory.files.read_bytes(f"{directory.uri}/{path}", LIMIT).decode()
    try:
        return [json.loads(line) for line in text.splitlines()[1:]]
    except ValueError:
        raise MalformedCheckpoint(f"{directory.uri}/{path} is cut off or not JSON") from None


def left_at(directory: CheckpointDir, entries: tuple[str, ...], batch: int | None) -> tuple[str, ...]:
    """The remaining splits of a task after a batch.

    :param entries: the task's assigned splits.
    :param batch: None for the state before the first batch.
    """
    if batch is None or not entries:
        return entries
    return splits.left(entries, directory.source_offsets(batch).values(), files_read(directory, batch))
