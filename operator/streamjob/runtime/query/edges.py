"""Which stage reads what another one writes, found from the queries: same folder, topic or table.

Edges that the queries do not show (foreachBatch, a topic taken from a column) are declared by the script.
Sinks are known from the options that the script set on the writer (`stream_writer`). Sources are known from
the leaves of the query's logical plan (StreamingRelation, StreamingRelationV2 and UnresolvedRelation of
org.apache.spark.sql).
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
    """Where data lies between two stages.

    :param kind: `files`, `kafka` or `table`.
    :param names: a URI, topics, or a table's name.
    :param pattern: whether `names` are patterns: globs for files, a regular expression for topics.
    :param brokers: Kafka's bootstrap servers.
    """

    kind: str
    names: frozenset[str]
    pattern: bool = False
    brokers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Ends:
    """Where a query reads and writes.

    :param unknown: the number of its sources that no other query can write to.
    """

    sources: tuple[Channel, ...] = ()
    sink: Channel | None = None
    unknown: int = 0

    def read(self, other: Ends) -> bool:
        """Whether the query reads something that `other` writes."""
        return any(feeds(other.sink, source) for source in self.sources)

    def has_own_sources(self, others: Collection[Ends], declared: int) -> bool:
        """Whether the query reads something that none of the others writes.

        :param declared: the number of others that are declared to write what it reads, and whose sinks do not
            show it.
        """
        unfed = [s for s in self.sources if not any(feeds(other.sink, s) for other in others)]
        return self.unknown > 0 or len(unfed) > declared


def neighbours(
    uid: str, ends: Ends, others: Iterable[tuple[str, Ends]], declared: Collection[tuple[str, str]] = ()
) -> tuple[list[str], list[str]]:
    """The stages that `uid` reads from, and those that read from it.

    :param others: the queries that have started, each with the uid of its stage.
    :param declared: pairs (writer, reader), including those of stages that have not started.
    :returns: (upstream, readers), uids without duplicates. Upstream may include declared stages that have
        not started; all readers have started.
    """
    found = list(others)
    upstream = [other for other, theirs in found if ends.read(theirs)]
    upstream += [writer for writer, reader in declared if reader == uid]
    readers = [other for other, theirs in found if theirs.read(ends) or (uid, other) in declared]
    return list(dict.fromkeys(upstream)), list(dict.fromkeys(readers))


def feeds(sink: Channel | None, source: Channel) -> bool:
    """Whether rows written to `sink` are read from `source`."""
    if sink is None or sink.kind != source.kind:
        return False
    if sink.brokers and source.brokers and not sink.brokers & source.brokers:
        return False
    if not source.pattern:
        return bool(sink.names & source.names)
    return any(_matches(source.kind, name, pattern) for name in sink.names for pattern in source.names)


def sink_of(written: Written, qualify: Callable[[str], str]) -> Channel | None:
    """Where a query writes. None for an unknown sink, such as a foreachBatch function."""
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
    """Where a query reads and writes. Sources that no query can write to (rate, sockets) are only counted."""
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
