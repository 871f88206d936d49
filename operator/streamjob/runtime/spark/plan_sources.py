"""What a query reads, as its plan says it: its sources, in the order in which the offset log has their positions.

From StreamingRelation and StreamingRelationV2 of org.apache.spark.sql. The keys of options are in lower case: Spark's are
case-insensitive.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Positions = dict[tuple[str, int], int]  # (topic, partition) → the first offset that has not been read

KNOWN = frozenset({"StreamingRelation", "StreamingRelationV2"})


@dataclass(frozen=True)
class Source:
    """`name` as Spark says it: `kafka`, `FileSource[/data/in]`."""

    name: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str | None:
        """Of those whose positions are known here."""
        if self.name.startswith("FileSource"):
            return "files"
        return {"kafka": "Kafka", "rate": "rate"}.get(self.name.lower())

    @property
    def replayable(self) -> bool:
        """What a query has read of it, another one can read again. From Spark's guide: a socket is for tests."""
        return self.name.lower() != "socket"

    @property
    def path(self) -> str | None:
        """Of files: as the script has said it, maybe a pattern."""
        return self.options.get("path") if self.kind == "files" else None

    @property
    def brokers(self) -> tuple[str, ...]:
        listed = (b.strip() for b in self.options.get("kafka.bootstrap.servers", "").split(","))
        return tuple(sorted(b for b in listed if b))

    def flag(self, option: str, default: bool) -> bool:
        return self.options.get(option, str(default)).lower() == "true"

    def subscribed(self) -> Callable[[str, int], bool] | None:
        """Of Kafka: whether a partition of a topic is read. None: the options do not say it."""
        if (pattern := self.options.get("subscribepattern")) is not None:
            try:
                matches = re.compile(pattern).fullmatch
            except re.error:  # of a kind that only Java has
                return None
            return lambda topic, _: matches(topic) is not None
        if (topics := self.options.get("subscribe")) is not None:
            names = {t.strip() for t in topics.split(",")}
            return lambda topic, _: topic in names
        if (assigned := self.options.get("assign")) is not None:
            pairs = {(t, int(n)) for t, numbers in json.loads(assigned).items() for n in numbers}
            return lambda topic, number: (topic, number) in pairs
        return None


def sources_of_plan(plan: Any) -> list[Source] | None:
    """:param plan: analyzed logical plan. None: one is not of a kind that is known, so nobody can count them."""
    leaves: Any = plan.collectLeaves()
    found = [leaf for leaf in (leaves.apply(i) for i in range(leaves.size())) if leaf.isStreaming()]
    if any(str(leaf.getClass().getSimpleName()) not in KNOWN for leaf in found):
        return None
    return [Source(str(leaf.sourceName()), options_of(leaf)) for leaf in found]


def options_of(leaf: Any) -> dict[str, str]:
    """:param leaf: a StreamingRelation or a StreamingRelationV2."""
    if str(leaf.getClass().getSimpleName()) == "StreamingRelationV2":
        return {str(k).lower(): str(v) for k, v in dict(leaf.extraOptions()).items()}
    pairs, options = leaf.dataSource().options().iterator(), {}
    while pairs.hasNext():
        pair = pairs.next()
        options[str(pair._1()).lower()] = str(pair._2())
    return options


def kind_of_position(text: str) -> str | None:
    """Of those that can be told from it, None for others and for none: `{"logOffset":3}`, `{"topic":{"0":17}}`, `17`."""
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
    """Empty if it is no position of Kafka's source."""
    try:
        plain = json.loads(text)
        return {(t, int(n)): int(at) for t, numbers in plain.items() for n, at in numbers.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
