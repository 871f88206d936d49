"""What a query read and wrote when it started last, noted beside Spark's own files in its checkpoint directory.

    streamjob-ends.json     {"format":"streamjob.ends","version":1,"sources":[…],"sink":…,"writer":…}

A savepoint copies it with the rest, so its manifest has its hash, and what is restored is compared with what it was. Spark's own
files say what was read, but not where a query writes or which brokers it asked. A directory without it (of a bare PySpark
job, or of before) is compared by those alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...protocol import codec
from ...protocol.errors import FormatError
from ...protocol.manifest import check_version
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.plan_sources import Source
from ..storage.hadoop import NotFound
from .edges import Channel

NAME = "streamjob-ends.json"
FORMAT = "streamjob.ends"
VERSION = 1
LIMIT = 1 << 20  # bytes


@dataclass(frozen=True)
class Place:
    """`kind`: files, Kafka, or what Spark calls it; `at`: a path, topics, a table.

    :param brokers: Kafka's bootstrap servers.
    """

    kind: str
    at: str = ""
    brokers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind} {self.at}".rstrip() + (f" at {','.join(self.brokers)}" if self.brokers else "")


@dataclass(frozen=True)
class NotedEnds:
    """:param writer: what writes, where it is not known to which place: the name of a foreachBatch function, or of a format."""

    format: str
    version: int
    sources: tuple[Place, ...]
    sink: Place | None = None
    writer: str | None = None

    def same_as(self, other: NotedEnds) -> bool:
        """Both could be one query."""
        if self.sink is not None or other.sink is not None:
            return self.sink == other.sink
        return bool(self.sources) and (self.sources, self.writer) == (other.sources, other.writer)


def ends(
    sources: Sequence[Source], sink: Channel | None, writer: str | None, qualify: Callable[[str], str]
) -> NotedEnds:
    return NotedEnds(
        FORMAT,
        VERSION,
        tuple(_place(s, qualify) for s in sources),
        Place(sink.kind, ",".join(sorted(sink.names)), tuple(sorted(sink.brokers))) if sink else None,
        writer if sink is None else None,
    )


def noted(directory: CheckpointDir) -> NotedEnds | None:
    """None: nothing is noted, or what a newer StreamJob has noted: it only serves to say more."""
    try:
        data = directory.files.read_bytes(f"{directory.uri}/{NAME}", LIMIT)
        return codec.from_plain(NotedEnds, check_version(data, FORMAT, VERSION, NAME, LIMIT))
    except (NotFound, FormatError):
        return None


def note(directory: CheckpointDir, now: NotedEnds) -> None:
    """May be repeated. A crash in between leaves nothing noted."""
    if noted(directory) == now:
        return
    directory.files.delete(f"{directory.uri}/{NAME}")
    directory.files.write_new(f"{directory.uri}/{NAME}", codec.dumps(now).encode())


def _place(source: Source, qualify: Callable[[str], str]) -> Place:
    if source.path is not None:
        return Place("files", qualify(source.path).rstrip("/"))
    if source.kind == "Kafka":
        topics = (source.options.get(key) for key in ("subscribe", "subscribepattern", "assign"))
        return Place("Kafka", next((t for t in topics if t is not None), ""), source.brokers)
    return Place(source.name)
