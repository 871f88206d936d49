"""Which stage reads what another one writes, found from the queries: same folder, topic or table.

Edges that the queries do not show (a topic taken from a column) are declared by the script. What a
foreachBatch function writes is observed (`foreach_batch.writes`). Sinks are known from the options that the
script set on the writer (`stream_writer`), tables from the catalog as well. Sources are known from the leaves
of the query's logical plan (StreamingRelation and StreamingRelationV2 of org.apache.spark.sql).

Two questions are asked, and in doubt they are answered differently. "Does the reader read any of it?" is an
edge, by which a drain goes: in doubt, yes. "Is all that the reader reads written by these queries?" decides
whether the reader ends with them: in doubt, no. It then continues, as under Spark.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...transactional import TransactionalSink
from ..spark.handles import Table, analyzed_plan, table_of
from ..spark.sources.iceberg_history import location_of
from ..spark.sources.plan_sources import KNOWN, options_of, table_read
from ..spark.stream_writer import WriterOptions
from ..spark.target import Target

MANY = 8  # folders below one folder: a function that writes so many will write others
GLOB = re.compile(r"[*?\[\]{}\\]")  # as SparkHadoopUtil.isGlobPath
BRACES = re.compile(r"(?<!\\)\{([^{}]*)\}")  # the innermost


@dataclass(frozen=True)
class Channel:
    """Where data lies between two stages.

    :param kind: `files`, `kafka` or `table`.
    :param names: a URI, topics, or a table's name with its catalog.
    :param pattern: whether `names` are patterns: globs for files, a regular expression for topics.
    :param brokers: Kafka's bootstrap servers.
    :param folder: of a table, the URI where its files are. None if that is not known.
    :param nested: of a sink, whether it writes partition folders below its own; of a source, whether it reads
        every folder below its own.
    """

    kind: str
    names: frozenset[str]
    pattern: bool = False
    brokers: frozenset[str] = frozenset()
    folder: str | None = None
    nested: bool = False

    @property
    def folders(self) -> frozenset[str]:
        """The folders that a sink writes to."""
        if self.kind == "files":
            return self.names
        return frozenset({self.folder}) if self.folder is not None else frozenset()


@dataclass(frozen=True)
class Endpoints:
    """Where a query reads and writes.

    :param unknown: the number of its sources that no other query can write to.
    :param wrote: what its foreachBatch function was seen to write. It may write elsewhere, too.
    """

    sources: tuple[Channel, ...] = ()
    sink: Channel | None = None
    unknown: int = 0
    wrote: tuple[Channel, ...] = ()

    def read(self, other: Endpoints) -> bool:
        """Whether the query reads something that `other` writes."""
        return any(
            feeds(sink, source) or (sink in other.wrote and _is_below(source, sink))
            for source in self.sources
            for sink in (other.sink, *other.wrote)
        )

    def reads_sink_of(self, other: Endpoints) -> bool:
        """Whether the query reads the sink of `other`, which takes all that `other` writes."""
        return any(feeds(other.sink, source) for source in self.sources)

    def with_writes(self, *seen: Channel) -> Endpoints:
        """The same ends after the foreachBatch function has written there.

        A function may write a new folder in each batch (`batch=7`). Many folders of one parent become the
        parent with all that is below it.
        """
        wrote = list(self.wrote)
        for channel in seen:
            if any(_includes(other, channel) for other in wrote):
                continue
            wrote.append(channel)
            parent = _parent(channel)
            siblings = [c for c in wrote if parent is not None and _parent(c) == parent]
            if parent is not None and len(siblings) > MANY:
                below = Channel("files", frozenset({parent}), nested=True)
                wrote = [c for c in wrote if not _includes(below, c)] + [below]
        return replace(self, wrote=tuple(wrote))

    def has_own_sources(self, others: Collection[Endpoints], declared: int) -> bool:
        """Whether the query reads something that none of the others writes.

        A pattern always does: what it will match is not known.

        :param declared: the number of others that are declared to write what it reads, and whose sinks do not
            show it. Each accounts for one folder, topic or table.
        """
        if self.unknown or any(source.pattern for source in self.sources):
            return True
        sinks = [other.sink for other in others if other.sink is not None]
        named = [(source, name) for source in self.sources for name in source.names]
        unfed = [name for source, name in named if not any(_fills(sink, source, name) for sink in sinks)]
        return len(unfed) > declared


def neighbours(
    uid: str,
    ends: Endpoints,
    others: Iterable[tuple[str, Endpoints]],
    declared: Collection[tuple[str, str]] = (),
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
    if sink is None:
        return False
    if _name_one_path(sink, source):
        return True
    if source.kind == "files":
        nested = sink.nested or source.nested
        places = [place for name in source.names for place in (_globs(name) if source.pattern else [name])]
        return any(_reads_of(place, folder, nested) for place in places for folder in sink.folders)
    if sink.kind != source.kind:
        return False  # one Kafka cluster has many addresses: the topic alone counts
    if source.pattern:
        return any(_subscribes(pattern, topic) for pattern in source.names for topic in sink.names)
    if source.kind == "table":  # whether case counts depends on the catalog
        return bool({n.casefold() for n in sink.names} & {n.casefold() for n in source.names})
    return bool(sink.names & source.names)


def sink_of(
    written: WriterOptions, qualify: Callable[[str], str], table: Table | None = None
) -> Channel | None:
    """Where a query writes. None for an unknown sink, such as a foreachBatch function.

    :param table: the one that `written.table` names, None if it could not be resolved.
    """
    if written.each_batch is not None:
        sink = written.each_batch.given
        if not isinstance(sink, TransactionalSink) or sink.folder is None:
            return None
        return Channel("files", frozenset({qualify(sink.folder)}))
    return _channel_of(written, qualify, table)


def _channel_of(target: Target, qualify: Callable[[str], str], table: Table | None) -> Channel | None:
    if target.table:
        if table is None:
            return None
        folder = qualify(table.folder) if table.folder is not None else None
        return Channel("table", frozenset({table.name}), folder=folder, nested=target.partitioned)
    options = target.options
    if (target.format or "").lower() == "kafka":
        topic = options.get("topic")
        return _kafka(options, {topic}) if topic else None
    if "path" not in options:
        return None
    return Channel("files", frozenset({qualify(options["path"])}), nested=target.partitioned)


def writes_of(target: Target, table: Table | None, qualify: Callable[[str], str]) -> tuple[Channel, ...]:
    """Where a foreachBatch function writes, as far as `foreach_batch.writes` has seen it.

    Empty if that is not known.
    """
    sink = _channel_of(target, qualify, table)
    if sink is None:
        return ()
    # The source of a reader may name the table or its folder.
    return (
        sink,
        *(Channel("files", frozenset({f}), nested=True) for f in sink.folders if sink.kind == "table"),
    )


def ends_of(writer: DataStreamWriter, written: WriterOptions, qualify: Callable[[str], str]) -> Endpoints:
    """Where a query reads and writes. Sources that no query can write to (rate, sockets) are only counted."""
    leaves = analyzed_plan(writer).collectLeaves()
    found = [_source(leaf, qualify) for leaf in map(leaves.apply, range(leaves.size())) if _is_stream(leaf)]
    sources = tuple(dict.fromkeys(place for place in found if place is not None))
    table = table_of(writer, written.table, written.options.get("path")) if written.table else None
    return Endpoints(sources, sink_of(written, qualify, table), sum(place is None for place in found))


def _is_below(source: Channel, written: Channel | None) -> bool:
    """Whether a source reads folders below one in which a foreachBatch function writes folders of its own."""
    if written is None or not (written.nested and written.kind == source.kind == "files"):
        return False
    (folder,) = written.names
    return any(name.startswith(folder.rstrip("/") + "/") for name in source.names)


def _parent(channel: Channel) -> str | None:
    """The folder that holds the folder of a channel; None if there is none, or only the root of a file
    system.
    """
    if channel.kind != "files":
        return None
    (folder,) = channel.names
    parent = folder.rstrip("/").rpartition("/")[0]
    return parent if urlsplit(parent).path.strip("/") else None


def _includes(channel: Channel, other: Channel) -> bool:
    """Whether whoever reads what is written to `other` also reads what is written to `channel`."""
    if channel == other:
        return True
    if channel.kind != "files" or other.kind != "files" or not channel.nested:
        return False
    (folder,), (inner,) = channel.names, other.names
    return inner == folder or inner.startswith(folder.rstrip("/") + "/")


def _is_stream(leaf: Any) -> bool:
    return str(leaf.getClass().getSimpleName()) in KNOWN


def _fills(sink: Channel, source: Channel, name: str) -> bool:
    """Whether all that a source reads under one of its names is what is written to `sink`."""
    if source.kind == "files":
        return name in sink.folders
    if _name_one_path(sink, source):
        return True
    return sink.kind == source.kind and _share_brokers(sink, source) and name in sink.names


def _name_one_path(sink: Channel, source: Channel) -> bool:
    """Whether a table is read and written at one path, whichever of the two names it by that path."""
    return source.kind == "table" and source.folder is not None and source.folder in sink.names | sink.folders


def _share_brokers(sink: Channel, source: Channel) -> bool:
    return not (sink.brokers and source.brokers) or bool(sink.brokers & source.brokers)


def _subscribes(pattern: str, topic: str) -> bool:
    try:
        return bool(re.fullmatch(pattern, topic))
    except re.error:  # a pattern that only Java understands
        return True


def _reads_of(source: str, folder: str, nested: bool) -> bool:
    """Whether a source reads files that are written to a folder.

    It reads the files of its own folder, and those of partition folders (`day=1`) at any depth. Of other
    folders below its own, Spark reads nothing unless the source is `nested`. A source may also be a part of
    what is written: `folder/day=1` or `folder/*.json`.

    :param source: a URI or a glob without braces.
    :param nested: files in any folder below the source's count.
    """
    read, written = source.split("/"), folder.split("/")
    if not all(_matches(glob, name) for glob, name in zip(read, written, strict=False)):
        return False
    part, below = read[len(written) :], written[len(read) :]
    if part:
        return all("=" in glob or GLOB.search(glob) for glob in part)
    return not below or nested or any("=" in name for name in below)


def _globs(pattern: str) -> list[str]:
    """The globs without braces that a glob of Hadoop's stands for."""
    found = BRACES.search(pattern)
    if found is None:
        return [pattern]
    before, after = pattern[: found.start()], pattern[found.end() :]
    return [glob for choice in found[1].split(",") for glob in _globs(before + choice + after)]


def _matches(glob: str, name: str) -> bool:
    """Whether a glob of Hadoop's matches one component of a path. An escaped character matches any other."""
    return fnmatch.fnmatchcase(name, re.sub(r"\\.", "?", glob).replace("[^", "[!"))


def _source(leaf: Any, qualify: Callable[[str], str]) -> Channel | None:
    options = options_of(leaf)
    table = table_read(leaf)
    if table is not None:
        path = options.get("path") or location_of(leaf)
        return Channel("table", frozenset({table}), folder=qualify(path).rstrip("/") if path else None)
    name = str(leaf.sourceName())
    if name.lower() == "kafka" or any(k in options for k in ("subscribe", "assign")):
        return _kafka_source(options)
    if "path" not in options:
        return None
    path = qualify(options["path"])
    # What other sources than Spark's own read below their folder is not known.
    nested = options.get("recursivefilelookup", "").lower() == "true" or not name.startswith("FileSource")
    return Channel("files", frozenset({path.rstrip("/")}), pattern=bool(GLOB.search(path)), nested=nested)


def _kafka_source(options: Mapping[str, str]) -> Channel | None:
    if "subscribepattern" in options:
        return _kafka(options, {options["subscribepattern"]}, pattern=True)
    if "assign" in options:
        return _kafka(options, set(json.loads(options["assign"])))
    return _kafka(options, {t.strip() for t in options.get("subscribe", "").split(",")})


def _kafka(options: Mapping[str, str], topics: set[str], *, pattern: bool = False) -> Channel:
    brokers = options.get("kafka.bootstrap.servers", "").split(",")
    return Channel("kafka", frozenset(topics), pattern, frozenset(b.strip() for b in brokers if b.strip()))
