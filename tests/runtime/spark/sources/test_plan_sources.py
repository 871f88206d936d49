"""What a source's options and positions say, without Spark."""

from __future__ import annotations

import pytest

from streamjob.runtime.spark.sources.plan_sources import Source, kafka_positions, kind_of_position


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"logOffset":3}', "files"),
        ('{"orders":{"0":17,"1":0},"returns":{}}', "Kafka"),
        ("17", "rate"),
        ("-", None),
        ("{}", None),
        ('{"reservoirVersion":2,"index":-1}', None),
        ('{"orders":{"first":17}}', None),
        ("[1]", None),
        ('"x"', None),
    ],
)
def test_a_position_tells_its_source(text: str, kind: str | None) -> None:
    assert kind_of_position(text) == kind


def test_positions_of_kafka() -> None:
    assert kafka_positions('{"a":{"0":1,"2":5},"b":{"0":0}}') == {("a", 0): 1, ("a", 2): 5, ("b", 0): 0}
    assert kafka_positions("-") == {}


@pytest.mark.parametrize(
    ("options", "read"),
    [
        ({"subscribe": "a, b"}, {("a", 0), ("a", 1), ("b", 0)}),
        ({"subscribepattern": "a|c.*"}, {("a", 0), ("a", 1)}),
        ({"assign": '{"a":[1],"b":[0]}'}, {("a", 1), ("b", 0)}),
    ],
)
def test_what_is_subscribed_to(options: dict[str, str], read: set[tuple[str, int]]) -> None:
    reads = Source("kafka", options).subscribed()
    assert reads is not None
    assert {p for p in [("a", 0), ("a", 1), ("ab", 0), ("b", 0)] if reads(*p)} == read


def test_a_pattern_that_only_java_can_read_is_not_compared() -> None:
    assert Source("kafka", {"subscribepattern": r"\p{Lower}+"}).subscribed() is None
