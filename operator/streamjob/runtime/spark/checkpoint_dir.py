"""Reads a checkpoint directory of Spark Structured Streaming without Spark's classes.

    metadata                    {"id": the query's UUID}
    offsets/N                   what batch N reads, see `offset_log`
    commits/N                   batch N is committed
    sources/KEY/…               a source's own log; the key as in `offset_log`
    state/I/P/…                 partition P of stateful operator I
    state/I/_metadata/…         describes that operator
    streamjob/drained/N         ours: the query is drained as it is, before batch N (`mark_drained`)

From HDFSMetadataLog, OffsetSeqLog, CommitLog and OperatorStateMetadata of
org.apache.spark.sql.execution.streaming.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from ...protocol.errors import StreamJobError
from ...protocol.formats.records import OperatorKind
from ...storage.hadoop import FileExists, FileInfo, HadoopFiles, NotFound
from . import offset_log
from .offset_log import OffsetLogEntry, Offsets

MAX_WATERMARK_MS = (
    253402300799999  # 9999-12-31T23:59:59.999Z; Long.MAX_VALUE would lose windows and joins silently
)
# The watermarks of a drain's successive batches. A timer that sets its successor at "the watermark plus ten
# minutes" fires again only if the next batch has a later watermark. The step is a year, because nobody sets a
# timer further ahead. There are a hundred, because a batch takes seconds and scripts chain few timers (a
# reminder, a second one, giving up); timers that are still being set after a hundred batches never stop.
MAX_WATERMARKS = range(MAX_WATERMARK_MS, MAX_WATERMARK_MS + 100 * 365 * 86_400_000, 365 * 86_400_000)
DRAINED = "streamjob/drained"
METADATA = "metadata"  # the query's id; Spark treats a directory without this file as new
OFFSET_LIMIT = 64 << 20  # bytes of one entry; Kafka with ten thousand partitions needs less than one MiB


class NotAtBoundary(StreamJobError):
    """The directory is not at the expected boundary: a batch is uncommitted, or a query still runs."""

    reason: ClassVar[str] = "NotAtBoundary"
    retryable: ClassVar[bool] = True


class MalformedCheckpoint(StreamJobError):
    """A file in the directory does not have Spark's format."""

    reason = "MalformedCheckpoint"


def is_temporary(path: str) -> bool:
    """Whether a writer died before it renamed this file, or the file is a local file system's checksum."""
    name = path.rsplit("/", 1)[-1]
    return name.startswith(".") and name.endswith((".tmp", ".crc"))


def describes_operator(path: str) -> bool:
    """Whether a file below `state` describes a stateful operator or its schema."""
    return "/_metadata/" in path or "/_stateSchema/" in path


@dataclass(frozen=True)
class OperatorInfo:
    """An operator of a query.

    :param uid: stable as long as the query's plan is.
    :param name: Spark's name for a stateful operator, otherwise the uid.
    """

    uid: str
    name: str
    kind: OperatorKind


class CheckpointDir:
    """A checkpoint directory. Methods cache nothing, and raise `StorageError` if they cannot read it."""

    def __init__(self, files: HadoopFiles, uri: str) -> None:
        self.files = files
        self.uri = uri.rstrip("/")

    def latest_offset(self) -> int | None:
        """The last planned batch, None if there is none."""
        return max(self.batches("offsets"), default=None)

    def latest_commit(self) -> int | None:
        """The last committed batch, None if there is none."""
        return max(self.batches("commits"), default=None)

    def newest_commit(self) -> tuple[int, int] | None:
        """The last committed batch, and when it was committed; None if there is none.

        The time is in milliseconds since 1970, by the storage's clock.
        """
        listed = self._listed("commits")
        return max(((int(f.path), f.modified) for f in listed if f.path.isdigit()), default=None)

    def batches(self, log: str) -> tuple[int, ...]:
        """The batch numbers in the log `offsets` or `commits`, unordered."""
        # Temporary files, .crc files and compacted entries are not named by a number alone.
        return tuple(int(name) for name in self._names(log) if name.isdigit())

    def log_version(self, log: str, batch: int) -> int:
        """The format version of one log entry.

        :raises MalformedCheckpoint: the entry has none.
        :raises NotFound: there is no such entry.
        """
        where = f"{log}/{batch}"
        first = self.files.read_bytes(f"{self.uri}/{where}", OFFSET_LIMIT).partition(b"\n")[0]
        if not (first[:1] == b"v" and first[1:].isdigit()):
            raise MalformedCheckpoint(f"{self.uri}/{where} does not begin with a version")
        return int(first[1:])

    def is_at_boundary(self) -> bool:
        """Whether every planned batch is committed."""
        return self.latest_offset() == self.latest_commit()

    def boundary(self) -> int | None:
        """The last batch, if it is committed; None if the query never planned one.

        :raises NotAtBoundary: the last planned batch is not committed.
        """
        planned, committed = self.latest_offset(), self.latest_commit()
        if planned != committed:
            raise NotAtBoundary(
                f"{self.uri}: batch {planned} is planned, batch {committed} is the last committed",
                remedy="Start the query again: it runs that batch first",
            )
        return planned

    def drop_half_written(self) -> None:
        """Delete the temporary log files of a killed driver, if no batch was ever planned.

        Spark 4.1 takes such files for another query's checkpoint and never starts again
        (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY). No query may be running.
        """
        if self.latest_offset() is not None:
            return
        for log in ("offsets", "commits"):
            for name in self._names(log):
                if is_temporary(name):
                    self.files.delete(f"{self.uri}/{log}/{name}")

    def watermark(self, batch: int) -> int:
        """The watermark that a batch runs with, in milliseconds since 1970.

        :raises NotFound: the offset log has no such batch.
        """
        return self.entry(batch).watermark

    def is_drained(self) -> bool:
        """Whether the query reads nothing more, which cannot be undone: the last planned batch has a max
        watermark, committed or not, or the directory is marked (`mark_drained`) and has had no batch since.
        """
        return self.drain_batches() > 0 or self.files.exists(self._mark())

    def mark_drained(self) -> None:
        """Mark the query as drained. May be repeated.

        A query without state has no batch with a max watermark. When a reader of it is about to run one, the
        mark says what the reader's own directory cannot: that nothing reads what this query would write.
        """
        with suppress(FileExists):
            if not self.is_drained():
                self.files.write_new(self._mark(), b"")

    def _mark(self) -> str:
        latest = self.latest_offset()
        return f"{self.uri}/{DRAINED}/{0 if latest is None else latest + 1}"

    def drain_batches(self) -> int:
        """The number of planned batches with a max watermark. The last one may be uncommitted."""
        latest = self.latest_offset()
        if latest is None:
            return 0
        watermark = self.watermark(latest)
        return MAX_WATERMARKS.index(watermark) + 1 if watermark in MAX_WATERMARKS else 0

    def metadata(self) -> bytes | None:
        """The contents of the file `metadata`; None in a directory where no query has started."""
        try:
            return self.files.read_bytes(f"{self.uri}/{METADATA}")
        except NotFound:
            return None

    def begin_as(self, query_id: str) -> None:
        """Write the file `metadata`, which there must not be: the query that starts here has this id."""
        text = json.dumps({"id": query_id}, separators=(",", ":"))
        self.files.write_new(f"{self.uri}/{METADATA}", text.encode())

    def query_id(self) -> str | None:
        """The query's UUID; None in a directory where no query has started."""
        data = self.metadata()
        return None if data is None else str(self._json(METADATA, data.decode())["id"])

    def describes_state(self) -> list[str]:
        """Paths of the files that describe the stateful operators and their schemas (also in partition 0)."""
        found = []
        for index in (n for n in self._names("state") if n.isdigit()):
            for folder in (f"state/{index}/{name}" for name in ("_metadata", "_stateSchema", "0")):
                found += [f"{folder}/{path}" for path in self._below(folder)]
        return [path for path in found if describes_operator(path)]

    def has_state(self) -> bool:
        """Whether the query has a stateful operator."""
        return bool(self._names("state"))

    @property
    def holds_back(self) -> bool:
        """Whether the query has something that its end may bring out: state, or a batch to run again."""
        return self.has_state() or self.latest_offset() != self.latest_commit()

    def stateful_operators(self) -> frozenset[int]:
        """The numbers of the stateful operators."""
        return frozenset(int(name) for name in self._names("state") if name.isdigit())

    def source_offsets(self, batch: int) -> Offsets:
        """The position up to which a batch reads each source."""
        return self.entry(batch).offsets

    def operators(self) -> list[OperatorInfo]:
        """The sources, the stateful operators and the sink. Before the first batch, one source is assumed."""
        latest = self.latest_offset()
        keys = ("0",) if latest is None else tuple(self.source_offsets(latest)) or ("0",)
        found = [OperatorInfo(f"source-{key}", f"source-{key}", OperatorKind.SOURCE) for key in keys]
        for index in sorted(int(n) for n in self._names("state") if n.isdigit()):
            name = self._operator_name(index)
            found.append(OperatorInfo(f"state-{index}", name, OperatorKind.STATE))
        return [*found, OperatorInfo("sink", "sink", OperatorKind.SINK)]

    def last_entries(self) -> tuple[OffsetLogEntry, OffsetLogEntry | None] | None:
        """The last entry of the offset log and the one before, which a query reads when it starts again.

        None if the log is empty.
        """
        latest = self.latest_offset()
        if latest is None:
            return None
        try:
            before = self.entry(latest - 1)
        except NotFound:
            before = None
        return self.entry(latest), before

    def entry(self, batch: int) -> OffsetLogEntry:
        """An entry of the offset log.

        :raises MalformedCheckpoint: the file is not an offset log entry.
        :raises NotFound: the log has no such batch.
        """
        uri = f"{self.uri}/offsets/{batch}"
        try:
            return offset_log.parse(self.files.read_bytes(uri, OFFSET_LIMIT).decode())
        except offset_log.BadEntry as e:
            raise MalformedCheckpoint(f"{uri} {e}") from None

    def _names(self, folder: str) -> list[str]:
        return [f.path for f in self._listed(folder)]

    def _below(self, folder: str) -> list[str]:
        try:
            return [f.path for f in self.files.list(f"{self.uri}/{folder}", recursive=True)]
        except NotFound:
            return []

    def _listed(self, folder: str) -> list[FileInfo]:
        try:
            return self.files.list(f"{self.uri}/{folder}")
        except NotFound:
            return []

    def _operator_name(self, index: int) -> str:
        """The operator's name, from `state/I/_metadata/metadata` or the newest of `state/I/_metadata/v2`."""
        folder = f"state/{index}/_metadata"
        where = f"{folder}/metadata"
        versions = [int(n) for n in self._names(f"{folder}/v2") if n.isdigit()]
        if versions:
            where = f"{folder}/v2/{max(versions)}"
        try:
            text = self.files.read_bytes(f"{self.uri}/{where}").decode()
        except NotFound:
            return f"state-{index}"
        info = self._json(where, text.partition("\n")[2])
        return str(info.get("operatorInfo", {}).get("operatorName", f"state-{index}"))

    def _json(self, where: str, text: str) -> dict[str, Any]:
        try:
            plain = json.loads(text)
        except ValueError:
            plain = None
        if not isinstance(plain, dict):
            raise MalformedCheckpoint(f"{self.uri}/{where} is cut off or not JSON")
        return plain
