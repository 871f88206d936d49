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
from collections.abc import Mapping, Sequence

from ..protocol.errors import StreamJobError
from .files import HadoopFiles, NotFound
from .written import Written

FORMATS = frozenset({"parquet", "json", "csv", "orc", "text", "avro", "xml"})
INTERVAL = "spark.sql.streaming.fileSink.log.compactInterval"
COMPACT = ".compact"
NOTHING = b"v1"  # an entry of a batch that wrote no file
APPEND_INTERVAL = 10  # as Spark's default; a reader finds it out from the log
LIMIT = 1 << 30  # bytes of an entry


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
    wrote nothing here. May be repeated; what the log has is left as it is."""
    found = _entries(files, folder)
    every = int(files.spark.conf.get(INTERVAL) or 10)
    compacted = max((n for n, name in found.items() if name.endswith(COMPACT) and n <= batch), default=None)
    first = compacted if compacted is not None else max(0, (batch + 1) // every * every - 1)
    for number in range(first, batch + 1):
        if number in found:
            continue
        name = f"{number}{COMPACT}" if (number + 1) % every == 0 else str(number)
        files.write_new(f"{folder}/_spark_metadata/{name}", NOTHING)


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


def lines(files: HadoopFiles, folder: str) -> set[str]:
    """All files that the log has, a line each."""
    found = _entries(files, folder)
    return {text for number in _valid(found) for text in _read(files, folder, found[number])}


def append(files: HadoopFiles, folder: str, added: Sequence[str]) -> None:
    """Make files visible, all or none: a new entry, compacted as often as Spark's readers expect it.

    :raises FileExists: another writer was faster; nothing was added.
    """
    found = _entries(files, folder)
    number = max(found, default=-1) + 1
    name, entry = str(number), list(added)
    if (number + 1) % APPEND_INTERVAL == 0:
        name += COMPACT
        entry = [text for n in _valid(found) for text in _read(files, folder, found[n])] + entry
    files.write_new(f"{folder}/_spark_metadata/{name}", "\n".join(["v1", *entry]).encode())


def _valid(found: Mapping[int, str]) -> list[int]:
    """The newest compacted entry and those after it."""
    first = max((n for n, name in found.items() if name.endswith(COMPACT)), default=0)
    return sorted(n for n in found if n >= first)


def _read(files: HadoopFiles, folder: str, name: str) -> list[str]:
    return files.read_bytes(f"{folder}/_spark_metadata/{name}", LIMIT).decode().splitlines()[1:]


def _entries(files: HadoopFiles, folder: str) -> dict[int, str]:
    try:
        names = [f.path for f in files.list(f"{folder}/_spark_metadata")]
    except NotFound:
        return {}
    return {int(n.removesuffix(COMPACT)): n for n in names if n.removesuffix(COMPACT).isdigit()}
