"""The log of Spark's file sink, `FOLDER/_spark_metadata`: which batches of a query the folder has.

    N               what batch N wrote: the line "v1", then a JSON line for each file
    N.compact       the same of batch N and of all before it, every tenth batch

From FileStreamSink, FileStreamSinkLog and CompactibleFileStreamLog of org.apache.spark.sql.execution.streaming. Two things
in it hurt a query that writes to a folder which is not its own from batch 0 on: a batch whose number the log has is dropped
without a word, and the first compaction fails for want of the batches before the query's first.

`streamjob.sinks.FileSink` keeps such a log itself, an entry for each commit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence

from ...protocol.errors import StreamJobError
from ..storage.hadoop import FileExists, HadoopFiles, NotFound
from .stream_writer import Written

FORMATS = frozenset({"parquet", "json", "csv", "orc", "text", "avro", "xml"})
INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"
COMPACT = ".compact"
VERSION = "v1"  # the first line of an entry; all of it, if the batch wrote no file
APPEND_INTERVAL = 10  # as Spark's default; a reader finds it out from the log
KEPT, KEPT_SECONDS = 100, 600.0  # as Spark's minBatchesToRetain and fileSink.log.cleanupDelay
LIMIT = 256 << 20  # bytes of an entry; a compacted one has a line for each file of the folder


class SinkAhead(StreamJobError):
    reason = "SinkAhead"


def folder_of(files: HadoopFiles, written: Written) -> str | None:
    """Where a query's file sink writes; None for any other sink."""
    default = files.spark.conf.get("spark.sql.sources.default") or "parquet"
    path = written.options.get("path")
    if path is None or written.table or (written.format or default).lower() not in FORMATS:
        return None
    return files.qualify(path).rstrip("/")


def refuse_ahead(files: HadoopFiles, folder: str, planned: int | None) -> None:
    """:param planned: the query's last planned batch; the sink may have it, or any before it.

    :raises SinkAhead: it has later ones, so Spark would drop what the query writes next.
    """
    latest = max(_entries(files, folder), default=None)
    if latest is None or latest <= (-1 if planned is None else planned):
        return
    begins = "begins with batch 0" if planned is None else f"goes on after batch {planned}"
    raise SinkAhead(
        f"{folder} has the output of batches up to {latest} and the query {begins}: Spark would take the batches "
        f"up to {latest} for written and drop their rows",
        remedy="Let the query write into a new folder",
    )


def begin_after(files: HadoopFiles, folder: str, batch: int) -> None:
    """Let the log begin after `batch`, where a query goes on that ran elsewhere: entries that say that the batches before it
    wrote nothing here. May be repeated; what the log has is left as it is, and stays in what readers see."""
    found = _entries(files, folder)
    compacted = sorted(n for n, name in found.items() if name.endswith(COMPACT))
    every = _interval(int(files.spark.conf.get(INTERVAL) or 10), compacted)
    last = (batch + 1) // every * every - 1
    # Spark takes the distance of two compacted entries for the interval: behind one, there are all.
    whole = [n for n in range(every - 1, batch + 1, every) if n == last or (compacted and n > compacted[-1])]
    needed = [*whole, *range(last + 1, batch + 1)]
    lines: list[str] = []  # readers begin with the newest compacted entry, so it has to have all before it
    for number in range(compacted[-1] if compacted else 0, batch + 1):
        if all(n in found for n in needed if n >= number):
            return
        if number in found:
            told = _lines(files, _uri(folder, found[number]))
            lines = told if found[number].endswith(COMPACT) else lines + told
        elif number in whole:
            _write(files, folder, f"{number}{COMPACT}", lines)
        elif number in needed:
            _write(files, folder, str(number), [])


def _interval(default: int, compacted: list[int]) -> int:
    """As CompactibleFileStreamLog.compactInterval: what the log was compacted with has precedence."""
    if len(compacted) > 1:
        return compacted[-1] - compacted[-2]
    if not compacted:
        return default
    size = compacted[0] + 1
    divisors = (n for n in range(default, size // 2 + 1) if size % n == 0)
    return next(divisors, size) if default < size / 2 else size


def _write(files: HadoopFiles, folder: str, name: str, lines: list[str]) -> None:
    files.write_new(_uri(folder, name), "\n".join([VERSION, *lines]).encode())


def _uri(folder: str, name: str) -> str:
    return f"{folder}/_spark_metadata/{name}"


def _lines(files: HadoopFiles, uri: str) -> list[str]:
    return files.read_bytes(uri, LIMIT).decode().splitlines()[1:]


def line(path: str, size: int, modified_ms: int) -> str:
    """One file, as SinkFileStatus says it."""
    status = {
        "path": path,
        "size": size,
        "isDir": False,
        "modificationTime": modified_ms,
        "blockReplication": 1,
        "blockSize": 128 << 20,
        "action": "add",
    }
    return json.dumps(status, separators=(",", ":"))


def newest(files: HadoopFiles, folder: str) -> int:
    """The number of the newest entry; -1 if there is none."""
    return max(_entries(files, folder), default=-1)


def has(files: HadoopFiles, folder: str, wanted: Sequence[str], *, after: int) -> bool:
    """Whether an entry behind `after` has these lines: all or none of them, for they were appended together."""
    return _has(files, folder, _entries(files, folder), wanted, after)


def append(files: HadoopFiles, folder: str, added: Sequence[str], *, after: int) -> None:
    """Make files visible, all or none: a new entry, compacted as often as Spark's readers expect it.

    May be repeated, also when an attempt failed whose entry is there, and by several at once.

    :param after: an entry before the first attempt.
    """
    while True:
        found = _entries(files, folder)
        if _has(files, folder, found, added, after):
            return
        number = max(found, default=-1) + 1
        whole = (number + 1) % APPEND_INTERVAL == 0
        before = _all_lines(files, folder, found) if whole else []
        try:
            _write(files, folder, f"{number}{COMPACT if whole else ''}", [*before, *added])
        except FileExists:
            continue  # another task of the stage was faster
        if whole:
            _delete_expired(files, folder, number)
        return


def _has(
    files: HadoopFiles, folder: str, found: Mapping[int, str], wanted: Sequence[str], after: int
) -> bool:
    later = {n: name for n, name in found.items() if n > after}
    return set(wanted) <= set(_all_lines(files, folder, later))


def _all_lines(files: HadoopFiles, folder: str, found: Mapping[int, str]) -> list[str]:
    return [text for n in _valid(found) for text in _lines(files, _uri(folder, found[n]))]


def _delete_expired(files: HadoopFiles, folder: str, compacted: int) -> None:
    """Of the entries that a compacted one has too, as many are kept as Spark keeps, and for as long: readers may be at them."""
    last = compacted - KEPT
    limit = (time.time() - KEPT_SECONDS) * 1000
    for entry in files.list(f"{folder}/_spark_metadata"):
        number = entry.path.removesuffix(COMPACT)
        if number.isdigit() and int(number) < last and entry.modified < limit:
            files.delete(_uri(folder, entry.path))


def _valid(found: Mapping[int, str]) -> list[int]:
    """The newest compacted entry and those after it."""
    first = max((n for n, name in found.items() if name.endswith(COMPACT)), default=0)
    return sorted(n for n in found if n >= first)


def _entries(files: HadoopFiles, folder: str) -> dict[int, str]:
    try:
        names = [f.path for f in files.list(f"{folder}/_spark_metadata")]
    except NotFound:
        return {}
    return {int(n.removesuffix(COMPACT)): n for n in names if n.removesuffix(COMPACT).isdigit()}
