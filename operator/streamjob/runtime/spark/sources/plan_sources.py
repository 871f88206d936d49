"""Reads a query's sources from its plan, with the keys by which the offset log has their positions.

From StreamingRelation and StreamingRelationV2 of org.apache.spark.sql. Keys of options are in lower case,
because Spark's are case-insensitive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from ..handles import analyzed_plan, full_name
from .iceberg_history import is_iceberg

Positions = dict[tuple[str, int], int]  # (topic, partition) → the first offset that is not read yet

_ATTRIBUTE = "_streamjob_sources"
# Formats whose options for the first position count only as long as there is no position.
BEGIN_ONCE = frozenset({"delta"})
_BEGINS = re.compile(r"start|from|since|begin")
KNOWN = frozenset({"StreamingRelation", "StreamingRelationV2"})


@dataclass(frozen=True)
class Source:
    """A source of a query.

    :param name: as in Spark's plan, such as `kafka` or `FileSource[/data/in]`.
    :param options: of the reader, keys in lower case.
    :param given: the name that the script gave to the source (`readStream.name`, Spark 4.2), None if it gave
        none.
    :param relation: the leaf of the plan, a StreamingRelation or a StreamingRelationV2.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    given: str | None = None
    relation: Any = field(default=None, compare=False, repr=False)

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
    def delta_table(self) -> str | None:
        """The folder of the Delta table that the source reads, as Spark has it; None for other sources."""
        return self.options.get("path") if self.name.lower() == "delta" else None

    @property
    def reads_changes(self) -> bool:
        """Whether it reads the change feed of a Delta table."""
        return any(self.flag(option, default=False) for option in ("readchangefeed", "readchangedata"))

    @property
    def begins(self) -> dict[str, str]:
        """The options that say where to begin, of a source that may obey them at each start.

        Empty for sources that obey them only when they have no position. Iceberg skips what is older than
        `stream-from-timestamp`, whatever its position is.
        """
        if self.kind is not None or self.name.lower() in BEGIN_ONCE:
            return {}
        return {key: value for key, value in sorted(self.options.items()) if _BEGINS.search(key)}

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
    return [Source(str(leaf.sourceName()), options_of(leaf), _given(leaf), leaf) for leaf in found]


def by_key(sources: Sequence[Source]) -> dict[str, Source]:
    """The sources of one query by their keys in its offset log.

    :param sources: in the order of the plan.
    """
    return {str(number) if s.given is None else s.given: s for number, s in enumerate(sources)}


def _given(leaf: Any) -> str | None:
    if not hasattr(DataStreamReader, "name"):
        return None
    name = leaf.sourceIdentifyingName()
    return str(name.name()) if str(name.getClass().getSimpleName()) == "UserProvided" else None


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
    """The full name of the table that a source reads. None if it reads something else.

    A file table of the session catalog is not such a table: Spark reads its folder. An Iceberg table without
    a catalog has its location as its name.

    :param leaf: a StreamingRelation or a StreamingRelationV2.
    """
    if str(leaf.getClass().getSimpleName()) != "StreamingRelationV2":
        return None
    catalog, identifier = leaf.catalog(), leaf.identifier()
    if catalog.isEmpty() or identifier.isEmpty():  # format("iceberg").load(name) tells neither
        return str(leaf.table().table().name()) if is_iceberg(leaf) else None
    return full_name(catalog.get(), identifier.get())


def kind_of_position(text: str | None) -> str | None:
    """The kind of source that a position in the offset log belongs to.

    :param text: such as `{"logOffset":3}` (files), `{"topic":{"0":17}}` (Kafka), `17` (rate).
    :returns: as `Source.kind`; None if the text is not a position, or does not tell.
    """
    try:
        position = json.loads(text or "")
    except ValueError:
        return None
    if isinstance(position, int):
        return "rate"
    if not isinstance(position, dict) or not position:
        return None
    if position.keys() == {"logOffset"}:
        return "files"
    return "Kafka" if kafka_positions(text) else None


def kafka_positions(text: str | None) -> Positions:
    """Parse a position of Kafka's source; empty if the text is not one."""
    try:
        plain = json.loads(text or "")
        return {(t, int(n)): int(at) for t, numbers in plain.items() for n, at in numbers.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
