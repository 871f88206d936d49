"""Which query reads what another one writes."""

from __future__ import annotations

import pytest

from streamjob.runtime.query.edges import Channel, Ends, feeds, neighbours, sink_of
from streamjob.runtime.spark.stream_writer import Written


def files(path: str, *, pattern: bool = False) -> Channel:
    return Channel("files", frozenset({path}), pattern)


def topics(*names: str, brokers: str = "k1:9092", pattern: bool = False) -> Channel:
    return Channel("kafka", frozenset(names), pattern, frozenset(brokers.split(",")))


@pytest.mark.parametrize(
    ("sink", "source", "expected"),
    [
        (files("file:/a"), files("file:/a"), True),
        (files("file:/a"), files("file:/b"), False),
        (files("file:/a/b"), files("file:/a/*", pattern=True), True),
        (files("file:/x/b"), files("file:/a/*", pattern=True), False),
        (topics("t"), topics("s", "t"), True),
        (topics("t"), topics("t", brokers="k2:9092,k1:9092"), True),
        (topics("t"), topics("t", brokers="k2:9092"), False),
        (topics("orders-eu"), topics("orders-.*", pattern=True), True),
        (topics("x-orders-eu"), topics("orders-.*", pattern=True), False),
        (Channel("table", frozenset({"t"})), files("t"), False),
        (None, files("file:/a"), False),
    ],
)
def test_feeds(sink: Channel | None, source: Channel, *, expected: bool) -> None:
    assert feeds(sink, source) is expected


def test_any_of_several_sources_is_enough() -> None:
    reader = Ends((files("file:/a"), topics("t")), files("file:/out"))
    assert reader.read(Ends((), topics("t")))
    assert not reader.read(Ends((), files("file:/elsewhere")))


def test_where_a_writer_writes() -> None:
    def qualify(path: str) -> str:
        return f"file:{path}"

    assert sink_of(Written("parquet", {"path": "/out"}), qualify) == files("file:/out")
    kafka = Written("kafka", {"topic": "t", "kafka.bootstrap.servers": "k1:9092, k2:9092"})
    assert sink_of(kafka, qualify) == topics("t", brokers="k1:9092,k2:9092")
    assert sink_of(Written("kafka", {}), qualify) is None, (
        "the topic is in a column: it has to be known otherwise"
    )
    assert sink_of(Written(table="lake.t"), qualify) == Channel("table", frozenset({"lake.t"}))
    assert sink_of(Written("console"), qualify) is None


def test_neighbours_are_found_or_declared() -> None:
    """`router` chooses the topic by a column, `loader` writes with foreachBatch: neither shows where it writes."""
    router = Ends(
        (files("file:/in"),), sink_of(Written("kafka", {"kafka.bootstrap.servers": "k1:9092"}), str)
    )
    loader = Ends((topics("orders"),), sink_of(Written("foreachBatch"), str))
    totals = Ends((files("file:/loaded"),), files("file:/totals"))
    others = [("router", router), ("totals", totals)]
    assert neighbours("loader", loader, others) == ([], [])
    declared = [("router", "loader"), ("loader", "totals"), ("router", "audit")]
    assert neighbours("loader", loader, others, declared) == (["router"], ["totals"])
    assert neighbours("router", router, [], declared) == ([], [])
    assert neighbours("audit", Ends(), [], declared) == (["router"], []), "the writer may start later"
    shown = Ends((files("file:/totals"), topics("orders")))
    assert neighbours("shown", shown, others, [("router", "shown")]) == (["totals", "router"], []), (
        "found and declared"
    )
