"""Reads a query's sources from its plan, in the order in which the offset log has their positions.

From StreamingRelation and StreamingRelationV2 of org.apache.spark.sql. Keys of options are in lower case,
because Spark's are case-insensitive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ..handles import analyzed_plan, full_name

Positions = dict[tuple[str, int], int]  # (topic, partition) → the first offset that is not read yet

_ATTRIBUTE = "_streamjob_sources"
KNOWN = frozenset({"StreamingRelation", "StreamingRelationV2"})


@dataclass(frozen=True)
class Source:
    """A source of a query.

    :param name: as in Spark's plan, such as `kafka` or `FileSource[/data/in]`.
    :param options: of the reader, keys in lower case.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str | None:
        """`files`, `Kafka` or `rate`; None for a source whose positions this module does not understand."""
        if self.name.startswith("FileSource"):
            return "files"
        return {"kafka": "Kafka", "rate": "rate"}.get(self.name.lower())

    @property
    def replayable(self) -> bool:
        """Whether another query can read the same input again.

        Only a socket is not replayable. According to Spark's guide, it is for tests.
        """
        return self.name.lower() != "socket"

    @property
    def path(self) -> str | None:
        """The path of a file source as the script gave it, possibly a pattern; None for other sources."""
        return self.options.get("path") if self.kind == "files" else None

    @property
    def brokers(self) -> tuple[str, ...]:
        listed = (b.strip() for b in self.options.get("kafka.bootstrap.servers", "").split(","))
        return tuple(sorted(b for b in listed if b))

    @property
    def topics(self) -> set[str] | None:
        """The topics that the source subscribes to by name; None if it does not name them."""
        given = self.options.get("subscribe")
        return None if given is None else {t.strip() for t in given.split(",") if t.strip()}

    def flag(self, option: str, default: bool) -> bool:
        return self.options.get(option, str(default)).lower() == "true"

    def subscribed(self) -> Callable[[str, int], bool] | None:
        """For Kafka, a function of topic and partition that says whether the source reads it.

        :returns: None if the options do not tell.
        """
        if (pattern := self.options.get("subscribepattern")) is not None:
            try:
                matches = re.compile(pattern).fullmatch
            except re.error:  # a pattern that only Java understands
                return None
            return lambda topic, _: matches(topic) is not None
        if (names := self.topics) is not None:
            return lambda topic, _: topic in names
        if (assigned := self.options.get("assign")) is not None:
            pairs = {(t, int(n)) for t, numbers in json.loads(assigned).items() for n in numbers}
            return lambda topic, number: (topic, number) in pairs
        return None


def sources_of(writer: DataStreamWriter) -> list[Source] | None:
    """The streaming sources of the frame that the writer writes, as `sources_of_plan`.

    Looked up once for each writer: it takes some calls into the JVM for each source and each of its options.
    """
    if not hasattr(writer, _ATTRIBUTE):
        setattr(writer, _ATTRIBUTE, sources_of_plan(analyzed_plan(writer)))
    found: list[Source] | None = getattr(writer, _ATTRIBUTE)
    return found


def sources_of_plan(plan: Any) -> list[Source] | None:
    """The streaming sources of a plan.

    :param plan: the analyzed logical plan.
    :returns: None if a streaming leaf is of an unknown class, because the sources then cannot be counted.
    """
    leaves: Any = plan.collectLeaves()
    found = [leaf for leaf in (leaves.apply(i) for i in range(leaves.size())) if leaf.isStreaming()]
    if any(str(leaf.getClass().getSimpleName()) not in KNOWN for leaf in found):
        return None
    return [Source(str(leaf.sourceName()), options_of(leaf)) for leaf in found]


def options_of(leaf: Any) -> dict[str, str]:
    """The options of a source, keys in lower case.

    :param leaf: a StreamingRelation or a StreamingRelationV2.
    """
    if str(leaf.getClass().getSimpleName()) == "StreamingRelationV2":
        return {str(k).lower(): str(v) for k, v in dict(leaf.extraOptions()).items()}
    pairs, options = leaf.dataSource().options().iterator(), {}
    while pairs.hasNext():
        pair = pairs.next()
        options[str(pair._1()).lower()] = str(pair._2())
    return options


def table_read(leaf: Any) -> str | None:
    """The full name of the catalog table that a source reads. None if it reads something else.

    A file table of the session catalog is not such a table: Spark reads its folder.

    :param leaf: a StreamingRelation or a StreamingRelationV2.
    """
    if str(leaf.getClass().getSimpleName()) != "StreamingRelationV2":
        return None
    catalog, identifier = leaf.catalog(), leaf.identifier()
    if catalog.isEmpty() or identifier.isEmpty():
        return None
    return full_name(catalog.get(), identifier.get())


def kind_of_position(text: str) -> str | None:
    """The kind of source that a position in the offset log belongs to.

    :param text: such as `{"logOffset":3}` (files), `{"topic":{"0":17}}` (Kafka), `17` (rate).
    :returns: as `Source.kind`; None if the text is not a position, or does not tell.
    """
    try:
        position = json.loads(text)
    except ValueError:
        return None
    if isinstance(position, int):
        return "rate"
    if not isinstance(position, dict) or not position:
        return None
    if position.keys() == {"logOffset"}:
        return "files"
    return "Kafka" if kafka_positions(text) else None


def kafka_positions(text: str) -> Positions:
    """Parse a position of Kafka's source; empty if the text is not one."""
    try:
        plain = json.loads(text)
        return {(t, int(n)): int(at) for t, numbers in plain.items() for n, at in numbers.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
