"""The log of Spark's file source, `sources/I/N` in a checkpoint directory: which files it has read.

    N               what its entry N read: the line "v1", then a JSON line for each file
    N.compact       the same of entry N and of all before it

From FileStreamSource, FileStreamSourceLog and CompactibleFileStreamLog of org.apache.spark.sql.execution.streaming. Entries
are not numbered as the query's batches are: batch B has read up to the entry that its offset names, `{"logOffset":N}`.
"""

from __future__ import annotations

import json
from typing import Any

from ...protocol import splits
from ..storage.hadoop import NotFound
from .checkpoint_dir import CheckpointDir, MalformedCheckpoint

COMPACT = ".compact"
LIMIT = 256 << 20  # bytes of an entry; a compacted one has a line for each file of the folder


def files_read(directory: CheckpointDir, batch: int) -> list[str]:
    """The paths that a query had read when `batch` was done, percent-encoded as Spark writes them.

    :raises MalformedCheckpoint: a log is not what Spark writes, or a part of it is missing.
    """
    found: list[str] = []
    for index, line in enumerate(directory.source_offsets(batch)):
        latest = _log_offset(line)
        if latest is not None and latest >= 0:
            found += _entries(directory, f"sources/{index}", latest)
    return found


def newest_files(directory: CheckpointDir, source: int) -> list[str]:
    """The paths, percent-encoded, of the newest entry that a source has, with a compacted one those of all."""
    names = _numbered(directory, f"sources/{source}")
    listed = _lines(directory, f"sources/{source}/{names[max(names)]}") if names else []
    return [str(f["path"]) for f in listed]


def files_ahead(directory: CheckpointDir, source: int, batch: int | None) -> list[str]:
    """The paths, percent-encoded, that a source has listed and that had not been read when `batch` was done (None: before the
    first): those of the batch that is planned, and what a query that ran on from there has listed since.

    :raises MalformedCheckpoint: the log is not what Spark writes.
    """
    offset = None if batch is None else _log_offset(directory.source_offsets(batch)[source])
    after = -1 if offset is None else offset
    log = f"sources/{source}"
    names = {n: name for n, name in _numbered(directory, log).items() if n > after}
    whole = max((n for n, name in names.items() if name.endswith(COMPACT)), default=None)
    wanted = sorted(n for n in names if whole is None or n >= whole)
    listed = [line for n in wanted for line in _lines(directory, f"{log}/{names[n]}")]
    return [str(f["path"]) for f in listed if int(f["batchId"]) > after]


def _log_offset(line: str) -> int | None:
    try:
        plain = json.loads(line[line.find("{") :])
    except ValueError:
        return None
    offset = plain.get("logOffset") if isinstance(plain, dict) else None
    return offset if isinstance(offset, int) else None


def _entries(directory: CheckpointDir, log: str, latest: int) -> list[str]:
    names = _numbered(directory, log)
    compacted = [n for n, name in names.items() if name.endswith(COMPACT)]
    first = max((n for n in compacted if n <= latest), default=None)
    wanted = list(range(0 if first is None else first, latest + 1))
    if any(n not in names for n in wanted):
        # Spark deletes entries that a later one has taken in.
        wanted = sorted(n for n in compacted if n > latest)[:1]
        if not wanted:
            raise MalformedCheckpoint(
                f"{directory.uri}/{log} should say what was read up to entry {latest}, and entries are missing"
            )
    files = [line for n in wanted for line in _lines(directory, f"{log}/{names[n]}")]
    return [str(f["path"]) for f in files if int(f["batchId"]) <= latest]


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
    """What is left of a task's splits after a batch, None: before the first."""
    if batch is None or not entries:
        return entries
    return splits.left(entries, directory.source_offsets(batch), files_read(directory, batch))
