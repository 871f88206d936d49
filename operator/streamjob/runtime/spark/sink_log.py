"""The log of Spark's file sink, `FOLDER/_spark_metadata`: which batches of a query are in the folder.

    N               what batch N wrote: the line "v1", then a JSON line for each file
    N.compact       the same for batch N and all batches before it, every tenth batch

From FileStreamSink, FileStreamSinkLog and CompactibleFileStreamLog of
org.apache.spark.sql.execution.streaming. The log has two hazards for a query that did not write to the folder
from batch 0 on: Spark silently drops a batch whose number is in the log, and the first compaction fails
because the batches before the query's first are missing.

`streamjob.sinks.FileSink` writes such a log itself, with one entry for each commit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...protocol.errors import StreamJobError
from ...storage.hadoop import FileExists, HadoopFiles, NotFound
from .handles import table_of
from .stream_writer import WriterOptions

FORMATS = frozenset({"parquet", "json", "csv", "orc", "text", "avro", "xml"})
INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"
METADATA = "_spark_metadata"
TRANSACTIONS = "_transactions"  # of a FileSink that writes to the same folder
COMPACT = ".compact"
VERSION = "v1"  # the first line of an entry, and the only one if the batch wrote no file
APPEND_INTERVAL = 10  # Spark's default; a reader infers it from the log
KEPT, KEPT_SECONDS = 100, 600.0  # Spark's defaults of minBatchesToRetain and fileSink.log.cleanupDelay
LIMIT = 256 << 20  # bytes of an entry; a compacted one has a line for each file of the folder


class SinkAhead(StreamJobError):
    reason = "SinkAhead"


class SinkGone(StreamJobError):
    """The table with the output so far, or the log of its folder, is gone. Spark would begin another one."""

    reason = "SinkGone"


class SinkBehind(StreamJobError):
    """The sink no longer has batches that the query has committed and would not write again."""

    reason = "SinkBehind"


@dataclass(frozen=True)
class Log:
    """The entries of a folder's log.

    :param names: the files of the entries, such as `7` and `9.compact`.
    :param interval: the configured interval of compactions.
    """

    names: frozenset[str]
    interval: int = APPEND_INTERVAL

    @property
    def newest(self) -> int | None:
        return max(map(number_of, self.names), default=None)

    @property
    def lacks(self) -> list[str]:
        """The entries that readers and the next compaction look for and do not find: those from the last
        compacted one on, as CompactibleFileStreamLog.getAllValidBatches.
        """
        if self.newest is None:
            return []
        every = _interval(self.interval, sorted(number_of(n) for n in self.names if n.endswith(COMPACT)))
        first = max((self.newest + 1) // every * every - 1, 0)
        wanted = [f"{n}{COMPACT if (n + 1) % every == 0 else ''}" for n in range(first, self.newest + 1)]
        return [name for name in wanted if name not in self.names]


def number_of(name: str) -> int:
    return int(name.removesuffix(COMPACT))


def folder_of(files: HadoopFiles, writer: DataStreamWriter, written: WriterOptions) -> str | None:
    """The URI of the folder that a query's file sink writes to, also as a table; None for any other sink."""
    form, folder = written.format, written.options.get("path")
    if written.table is not None:
        table = table_of(writer, written.table, folder)
        folder = table.folder if table is not None else None
        if table is not None and folder is not None:
            form = table.provider or form
            if table.provider is None and files.spark.catalog.tableExists(table.quoted):
                return None  # of another catalog that takes the session catalog's place, such as Iceberg's
    form = form or files.spark.conf.get("spark.sql.sources.default") or "parquet"
    if folder is None or written.each_batch is not None or form.lower() not in FORMATS:
        return None
    return files.qualify(folder).rstrip("/")


def read(files: HadoopFiles, folder: str, interval: int = APPEND_INTERVAL) -> Log:
    """The log of a folder, without an entry if there is none."""
    return Log(frozenset(_names(files, folder)), interval)


def interval(spark: SparkSession) -> int:
    """The configured interval of compactions."""
    return int(spark.conf.get(INTERVAL) or APPEND_INTERVAL)


def begin_after(files: HadoopFiles, folder: str, batch: int) -> None:
    """Prepare the log for a query that ran elsewhere and continues here after `batch`.

    Writes the entries that Spark needs up to `batch`, which say that these batches wrote nothing here. May be
    repeated. Existing entries stay as they are, and readers still see their files.
    """
    found = _entries(files, folder)
    compacted = sorted(n for n, name in found.items() if name.endswith(COMPACT))
    every = _interval(interval(files.spark), compacted)
    last = (batch + 1) // every * every - 1
    # Spark infers the interval from the distance between compacted entries, so after an existing one none may
    # be missing.
    whole = [n for n in range(every - 1, batch + 1, every) if n == last or (compacted and n > compacted[-1])]
    needed = [*whole, *range(last + 1, batch + 1)]
    lines: list[str] = []  # readers start at the newest compacted entry, so it must hold all before it
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
    """As CompactibleFileStreamLog.compactInterval: the interval of the existing entries has precedence.

    :param default: the configured interval.
    :param compacted: numbers of the compacted entries, ascending.
    """
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
    return f"{folder}/{METADATA}/{name}"


def _lines(files: HadoopFiles, uri: str) -> list[str]:
    return files.read_bytes(uri, LIMIT).decode().splitlines()[1:]


def line(path: str, size: int, modified_ms: int) -> str:
    """The log line of one file, in the format of SinkFileStatus.

    :param path: URI of the file.
    :param size: bytes.
    :param modified_ms: milliseconds since 1970.
    """
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
    """Whether the log has these lines after entry `after`. It has all or none: they are appended together."""
    return _has(files, folder, _entries(files, folder), wanted, after)


def refuse_lost(folder: str, log: Log, entry: int | None) -> None:
    """Check that the log of a `FileSink` still has what it had.

    :param entry: the newest entry after the sink's last commit, None if that is not known.
    :raises SinkGone: the log is gone.
    :raises SinkBehind: it ends earlier, or lacks an entry.
    """
    remedy = f"Put the files of {METADATA} back. Or let the sink write to a new folder"
    if log.newest is None:
        if entry is not None and entry >= 0:
            raise SinkGone(
                f"a FileSink has committed to {folder} up to entry {entry} of its log, and the log is gone: "
                "nobody would find the earlier files",
                remedy=remedy,
            )
    elif log.lacks or (entry is not None and log.newest < entry):
        raise SinkBehind(
            f"a FileSink has committed to {folder}, and the log ends with entry {log.newest}"
            + (f" and lacks {', '.join(log.lacks[:5])}" if log.lacks else f" instead of {entry}")
            + ": nobody finds the files in between",
            remedy=remedy,
        )


def append(files: HadoopFiles, folder: str, added: Sequence[str], *, after: int) -> int:
    """Make files visible atomically with a new entry, which is compacted as often as Spark's readers expect.

    May be repeated, even if a failed attempt has written its entry, and may run concurrently.

    :param added: log lines of the files, see `line`.
    :param after: an entry that is older than the first attempt.
    :returns: the newest entry of the log; -1 if it has none.
    """
    while True:
        found = _entries(files, folder)
        if _has(files, folder, found, added, after):
            return max(found, default=-1)
        number = max(found, default=-1) + 1
        whole = (number + 1) % APPEND_INTERVAL == 0
        before = _all_lines(files, folder, found) if whole else []
        try:
            _write(files, folder, f"{number}{COMPACT if whole else ''}", [*before, *added])
        except FileExists:
            continue  # another task of the stage was faster
        if whole:
            _delete_expired(files, folder, number)
        return number


def _has(
    files: HadoopFiles, folder: str, found: Mapping[int, str], wanted: Sequence[str], after: int
) -> bool:
    later = {n: name for n, name in found.items() if n > after}
    return set(wanted) <= set(_all_lines(files, folder, later))


def _all_lines(files: HadoopFiles, folder: str, found: Mapping[int, str]) -> list[str]:
    return [text for n in _valid(found) for text in _lines(files, _uri(folder, found[n]))]


def _delete_expired(files: HadoopFiles, folder: str, compacted: int) -> None:
    """Delete old entries that a compacted entry contains as well.

    As many entries are kept as Spark keeps, and for as long, because readers may still be using them.

    :param compacted: number of the compacted entry.
    """
    last = compacted - KEPT
    limit = (time.time() - KEPT_SECONDS) * 1000
    for entry in files.list(f"{folder}/{METADATA}"):
        number = entry.path.removesuffix(COMPACT)
        if number.isdigit() and int(number) < last and entry.modified < limit:
            files.delete(_uri(folder, entry.path))


def _valid(found: Mapping[int, str]) -> list[int]:
    """The numbers of the newest compacted entry and of those after it, ascending."""
    first = max((n for n, name in found.items() if name.endswith(COMPACT)), default=0)
    return sorted(n for n in found if n >= first)


def _entries(files: HadoopFiles, folder: str) -> dict[int, str]:
    # In this order: a compacted entry stands for itself, and for a plain one of its number.
    return {number_of(name): name for name in sorted(_names(files, folder), key=len)}


def _names(files: HadoopFiles, folder: str) -> list[str]:
    try:
        # Each entry begins with its version: one without a byte is lost.
        names = [f.path for f in files.list(f"{folder}/{METADATA}") if f.size]
    except NotFound:
        return []
    return [name for name in names if name.removesuffix(COMPACT).isdigit()]
