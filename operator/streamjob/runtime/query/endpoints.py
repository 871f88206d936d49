"""What a query read and wrote at its last start, and its Spark, noted next to Spark's own files.

    streamjob-ends.json     {"format":"streamjob.ends","version":1,"sources":[…],"sink":…,"spark":…}

A savepoint copies the file with the rest and its manifest has the hash, so a restored query is compared with
the original one. Spark's own files record what was read, but not where a query writes or which brokers it
uses. A directory without the file (of a plain PySpark job, or of an older StreamJob) is compared by Spark's
files alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ...protocol.errors import FormatError
from ...protocol.formats import codec
from ...protocol.formats.manifest import check_version
from ...storage.hadoop import NotFound
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.sources.plan_sources import Source
from .edges import GLOB, Channel

NAME = "streamjob-ends.json"
FORMAT = "streamjob.ends"
VERSION = 1
LIMIT = 1 << 20  # bytes
PLAIN_TOPICS = re.compile(r"[A-Za-z0-9._\-, ]+")  # of the option subscribe; a pattern has other characters


@dataclass(frozen=True)
class Endpoint:
    """An endpoint of a query.

    :param kind: of a source: `files`, `Kafka`, or Spark's name for it; of a sink: as `Channel.kind`.
    :param at: a path, topics, or a table.
    :param brokers: Kafka's bootstrap servers.
    :param nested: of what a foreachBatch function wrote: as `Channel.nested`.
    :param name: of a source: the name that the script gave to it, empty if it gave none.
    :param begins: of a source: the options that say where it begins, as `Source.begins`. They may be computed
        at each start, so they do not tell whether two places are the same.
    """

    kind: str
    at: str = ""
    brokers: tuple[str, ...] = ()
    nested: bool = False
    name: str = field(default="", metadata=codec.NEW)
    begins: dict[str, str] = field(default_factory=dict, compare=False, metadata=codec.NEW)

    def __str__(self) -> str:
        what = f"{self.name}: {self.kind} {self.at}" if self.name else f"{self.kind} {self.at}"
        return what.rstrip() + (f" at {','.join(self.brokers)}" if self.brokers else "")


@dataclass(frozen=True)
class RecordedEndpoints:
    """The contents of the file.

    :param writer: if the sink is unknown, what writes: the name of a foreachBatch function, or of a format.
    :param wrote: as `Endpoints.wrote`, each with one name.
    :param spark: the version of Spark that the query runs on.
    :param former: names of sources that the query has read and whose position its offset log may have lost.
    """

    format: str
    version: int
    sources: tuple[Endpoint, ...]
    sink: Endpoint | None = None
    writer: str | None = None
    wrote: tuple[Endpoint, ...] = ()
    spark: str | None = None
    former: tuple[str, ...] = field(default=(), metadata=codec.NEW)

    @property
    def places(self) -> dict[str, Endpoint]:
        """The sources by their keys in the offset log."""
        return {place.name or str(number): place for number, place in enumerate(self.sources)}

    def with_writes(self, wrote: Sequence[Channel]) -> RecordedEndpoints:
        return replace(self, wrote=tuple(_written(c) for c in wrote))

    @property
    def channels(self) -> tuple[Channel, ...]:
        """As `Endpoints.wrote`."""
        return tuple(
            Channel(p.kind, frozenset({p.at}), brokers=frozenset(p.brokers), nested=p.nested)
            for p in self.wrote
        )

    def channels_read(self, canonical: Callable[[str], str]) -> tuple[Channel, ...]:
        """What the query reads, as far as a stage can write it.

        :param canonical: the form of a URI by which places are compared.
        """
        return tuple(c for c in (_read_from(place, canonical) for place in self.sources) if c is not None)

    def same_as(self, other: RecordedEndpoints) -> bool:
        """Whether both may be the same query: same sink or, if neither has one, same sources and writer."""
        if self.sink is not None or other.sink is not None:
            return self.sink == other.sink
        return bool(self.sources) and (self.sources, self.writer) == (other.sources, other.writer)


def ends(
    sources: Sequence[Source],
    sink: Channel | None,
    writer: str | None,
    qualify: Callable[[str], str],
    spark: str | None = None,
) -> RecordedEndpoints:
    return RecordedEndpoints(
        FORMAT,
        VERSION,
        tuple(_place(s, qualify) for s in sources),
        Endpoint(sink.kind, ",".join(sorted(sink.names)), tuple(sorted(sink.brokers))) if sink else None,
        writer if sink is None else None,
        spark=spark,
    )


def noted(directory: CheckpointDir) -> RecordedEndpoints | None:
    """What is noted in a directory. None if there is no note, or it cannot be read (a newer version).

    The checks work without it, with less information.
    """
    try:
        data = directory.files.read_bytes(f"{directory.uri}/{NAME}", LIMIT)
        return codec.from_plain(RecordedEndpoints, check_version(data, FORMAT, VERSION, NAME, LIMIT))
    except (NotFound, FormatError):
        return None


def note(directory: CheckpointDir, now: RecordedEndpoints) -> None:
    """Note the endpoints. May be repeated. A crash may leave nothing noted, but never a partial file."""
    before = noted(directory)
    if before is not None and codec.dumps(before) == codec.dumps(now):
        return
    directory.files.delete(f"{directory.uri}/{NAME}")
    directory.files.write_new(f"{directory.uri}/{NAME}", codec.dumps(now).encode())


def _written(channel: Channel) -> Endpoint:
    (name,) = channel.names
    return Endpoint(channel.kind, name, tuple(sorted(channel.brokers)), channel.nested)


def _read_from(place: Endpoint, canonical: Callable[[str], str]) -> Channel | None:
    brokers = frozenset(place.brokers)
    if place.kind == "files":
        return Channel("files", frozenset({canonical(place.at)}), pattern=bool(GLOB.search(place.at)))
    if place.kind != "Kafka":
        return None
    if place.at.startswith("{"):  # the option assign
        return Channel("kafka", frozenset(json.loads(place.at)), brokers=brokers)
    if PLAIN_TOPICS.fullmatch(place.at):
        return Channel("kafka", frozenset(t.strip() for t in place.at.split(",")), brokers=brokers)
    return Channel("kafka", frozenset({place.at}), pattern=True, brokers=brokers)


def _place(source: Source, qualify: Callable[[str], str]) -> Endpoint:
    name = source.given or ""
    if source.path is not None:
        return Endpoint("files", qualify(source.path).rstrip("/"), name=name)
    if source.kind == "Kafka":
        topics = (source.options.get(key) for key in ("subscribe", "subscribepattern", "assign"))
        return Endpoint("Kafka", next((t for t in topics if t is not None), ""), source.brokers, name=name)
    return Endpoint(source.name, name=name, begins=source.begins)
