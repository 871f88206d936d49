"""Which stage reads what another one writes, found from the queries themselves: same folder, topic or table. What they do not
show (foreachBatch, a topic from a column) the script declares.

Sinks are known from what the script has said of the writer (`stream_writer`); sources from the leaves of the query's logical plan
(StreamingRelation, StreamingRelationV2 and UnresolvedRelation of org.apache.spark.sql).
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...sinks.files import FileSink
from ..spark.handles import analyzed_plan
from ..spark.plan_sources import KNOWN, options_of
from ..spark.stream_writer import Written

GLOB = re.compile(r"[*?\[{]")


@dataclass(frozen=True)
class Channel:
    """Where data lies between two stages: `kind` is files, kafka or table; `names` a URI, topics, or a table's name.

    :param pattern: `names` are patterns: of paths for files, a regular expression for topics.
    :param brokers: Kafka's bootstrap servers.
    """

    kind: str
    names: frozenset[str]
    pattern: bool = False
    brokers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Ends:
    """Where a query reads and where it writes. `unknown`: how many of its sources no other query can write to."""

    sources: tuple[Channel, ...] = ()
    sink: Channel | None = None
    unknown: int = 0

    def read(self, other: Ends) -> bool:
        """Something of what the other one writes."""
        return any(feeds(other.sink, source) for source in self.sources)

    def has_own_sources(self, others: Collection[Ends], declared: int) -> bool:
        """Whether it reads something that none of the others writes.

        :param declared: how many others are declared to write what it reads, where their sinks do not show it.
        """
        unfed = [s for s in self.sources if not any(feeds(other.sink, s) for other in others)]
        return self.unknown > 0 or len(unfed) > declared


def neighbours(
    uid: str, ends: Ends, others: Iterable[tuple[str, Ends]], declared: Collection[tuple[str, str]] = ()
) -> tuple[list[str], list[str]]:
    """Which stages `uid` reads from, and which read from it.

    :param others: the queries that have started, each with the uid of its stage.
    :param declared: pairs (writer, reader), also of stages that have not started.
    """
    found = list(others)
    upstream = [other for other, theirs in found if ends.read(theirs)]
    upstream += [writer for writer, reader in declared if reader == uid]
    readers = [other for other, theirs in found if theirs.read(ends) or (uid, other) in declared]
    return list(dict.fromkeys(upstream)), list(dict.fromkeys(readers))


def feeds(sink: Channel | None, source: Channel) -> bool:
    """What `sink` is given comes out of `source`."""
    if sink is None or sink.kind != source.kind:
        return False
    if sink.brokers and source.brokers and not sink.brokers & source.brokers:
        return False
    if not source.pattern:
        return bool(sink.names & source.names)
    return any(_matches(source.kind, name, pattern) for name in sink.names for pattern in source.names)


def sink_of(written: Written, qualify: Callable[[str], str]) -> Channel | None:
    """Where a query writes; None for a sink that is not known, such as a function of foreachBatch."""
    if written.each_batch is not None:
        function = written.each_batch.given
        return (
            Channel("files", frozenset({qualify(function.folder)}))
            if isinstance(function, FileSink)
            else None
        )
    if written.table:
        return Channel("table", frozenset({written.table}))
    options = written.options
    if written.format == "kafka":
        topic = options.get("topic")
        return _kafka(options, {topic}) if topic else None
    return Channel("files", frozenset({qualify(options["path"])})) if "path" in options else None


def ends_of(writer: DataStreamWriter, written: Written, qualify: Callable[[str], str]) -> Ends:
    """Where a query reads from and writes to. Of sources that no other query can write to (rate, sockets) it knows how many."""
    leaves = analyzed_plan(writer).collectLeaves()
    found = [_source(leaf, qualify) for leaf in map(leaves.apply, range(leaves.size())) if _is_stream(leaf)]
    sources = tuple(dict.fromkeys(place for place in found if place is not None))
    return Ends(sources, sink_of(written, qualify), sum(place is None for place in found))


def _is_stream(leaf: Any) -> bool:
    return str(leaf.getClass().getSimpleName()) in {*KNOWN, "UnresolvedRelation"}


def _matches(kind: str, name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) if kind == "files" else bool(re.fullmatch(pattern, name))


def _source(leaf: Any, qualify: Callable[[str], str]) -> Channel | None:
    kind = str(leaf.getClass().getSimpleName())
    if kind == "UnresolvedRelation":
        return Channel("table", frozenset({str(leaf.tableName()).replace("`", "")}))
    options = options_of(leaf)
    if str(leaf.sourceName()).lower() == "kafka" or any(k in options for k in ("subscribe", "assign")):
        return _kafka_source(options)
    if "path" not in options:
        return None
    path = qualify(options["path"])
    return Channel("files", frozenset({path.rstrip("/")}), pattern=bool(GLOB.search(path)))


def _kafka_source(options: Mapping[str, str]) -> Channel | None:
    if "subscribepattern" in options:
        return _kafka(options, {options["subscribepattern"]}, pattern=True)
    if "assign" in options:
        return _kafka(options, set(json.loads(options["assign"])))
    return _kafka(options, {t.strip() for t in options.get("subscribe", "").split(",")})


def _kafka(options: Mapping[str, str], topics: set[str], *, pattern: bool = False) -> Channel:
    brokers = options.get("kafka.bootstrap.servers", "").split(",")
    return Channel("kafka", frozenset(topics), pattern, frozenset(b.strip() for b in brokers if b.strip()))
