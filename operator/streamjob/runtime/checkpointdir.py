"""Reads a Structured Streaming checkpoint directory: what Spark itself would find there at the next start."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ..protocol.errors import StreamJobError
from ..protocol.records import OperatorKind
from .files import HadoopFiles

# 9999-12-31T23:59:59.999Z. Not Long.MAX_VALUE: Spark adds delays to it, it overflows, and windows are lost silently.
MAX_WATERMARK_MS = 253402300799999
LOG_LIMIT = 16 << 20  # bytes of an offset log entry


class NotAtBoundary(StreamJobError):
    """A micro-batch is planned and not committed."""

    reason = "NotAtBoundary"
    retryable = True


class BrokenCheckpoint(StreamJobError):
    """A file in the directory is not what Spark writes."""

    reason = "CheckpointBroken"


@dataclass(frozen=True)
class OperatorInfo:
    """`uid` within the stage: `source-0`, `state-0`, `sink`; `name` is Spark's name for a stateful operator."""

    uid: str
    kind: OperatorKind
    name: str


@dataclass(frozen=True)
class OffsetEntry:
    """An entry of the offset log (`OffsetSeqLog`): a version line, a line of metadata, and the sources' offsets
    (format 1: a line each, `-` for a source without one yet; format 2: keyed by source). Lines are kept as they are."""

    lines: tuple[str, ...]

    @property
    def metadata(self) -> dict[str, Any]:
        parsed = json.loads(self.lines[1])
        assert isinstance(parsed, dict)
        return parsed

    @property
    def watermark(self) -> int:
        """Milliseconds since the epoch; 0 for a query without event time."""
        return int(self.metadata.get("batchWatermarkMs", 0))

    def with_metadata(self, **changes: int) -> OffsetEntry:
        changed = json.dumps({**self.metadata, **changes}, separators=(",", ":"))
        return OffsetEntry((self.lines[0], changed, *self.lines[2:]))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class CheckpointDir:
    """Nothing is cached: each question reads the storage. Every method raises StorageError for what that does."""

    def __init__(self, files: HadoopFiles, uri: str) -> None:
        self.files = files
        self.uri = uri.rstrip("/")

    def latest_offset(self) -> int | None:
        """The newest batch that was planned."""
        return max(self.files.numbers(f"{self.uri}/offsets"), default=None)

    def latest_commit(self) -> int | None:
        """The newest batch that was committed."""
        return max(self.files.numbers(f"{self.uri}/commits"), default=None)

    def boundary(self) -> int | None:
        """The last batch, committed; None before the first one. :raises NotAtBoundary: a batch is pending."""
        offset, commit = self.latest_offset(), self.latest_commit()
        if offset != commit:
            raise NotAtBoundary(f"{self.uri}: batch {offset} is planned, batch {commit} is committed")
        return commit

    def offsets(self, batch: int) -> OffsetEntry:
        """:raises BrokenCheckpoint: not an offset log entry."""
        uri = f"{self.uri}/offsets/{batch}"
        try:
            entry = OffsetEntry(tuple(self.files.read_bytes(uri, LOG_LIMIT).decode().split("\n")))
            entry.metadata  # noqa: B018  parsed here so that a broken one is found here
        except (ValueError, IndexError, AssertionError):
            raise BrokenCheckpoint(
                f"{uri} is not an entry of an offset log", remedy="Restore a savepoint"
            ) from None
        return entry

    def is_drained(self) -> bool:
        """The max watermark is in the offset log: the query's last batch has run, or is the only one that may."""
        latest = self.latest_offset()
        return latest is not None and self.offsets(latest).watermark >= MAX_WATERMARK_MS

    def query_id(self) -> str | None:
        """The id in `metadata`, None if no query has started from here."""
        uri = f"{self.uri}/metadata"
        if not self.files.exists(uri):
            return None
        try:
            return str(json.loads(self.files.read_bytes(uri, 1 << 16))["id"])
        except (ValueError, KeyError, TypeError):
            raise BrokenCheckpoint(f"{uri} holds no query id", remedy="Restore a savepoint") from None

    def is_stateful(self) -> bool:
        return bool(self.files.names(f"{self.uri}/state"))

    def operators(self) -> tuple[OperatorInfo, ...]:
        """Sources, stateful operators and the sink, in the order of the plan; () before the first batch."""
        latest = self.latest_offset()
        if latest is None:
            return ()
        sources = [line for line in self.offsets(latest).lines[2:] if line]
        found = [OperatorInfo(f"source-{i}", OperatorKind.SOURCE, "source") for i in range(len(sources))]
        for i in self.files.numbers(f"{self.uri}/state"):
            found.append(OperatorInfo(f"state-{i}", OperatorKind.STATE, self._operator_name(i)))
        return (*found, OperatorInfo("sink", OperatorKind.SINK, "sink"))

    def _operator_name(self, operator: int) -> str:
        """From `state/<i>/_metadata` (`OperatorStateMetadataV1`, `V2`)."""
        root = f"{self.uri}/state/{operator}/_metadata"
        versions = self.files.numbers(f"{root}/v2")
        uri = f"{root}/v2/{versions[-1]}" if versions else f"{root}/metadata"
        if not self.files.exists(uri):
            return "unknown"
        try:
            body = self.files.read_bytes(uri, LOG_LIMIT).decode().split("\n", 1)[1]
            return str(json.loads(body)["operatorInfo"]["operatorName"])
        except (ValueError, KeyError, IndexError, TypeError):
            return "unknown"
