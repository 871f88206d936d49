"""Which query reads what another one writes."""

from __future__ import annotations

import pytest

from streamjob.runtime.query.edges import MANY, Channel, Endpoints, feeds, neighbours, sink_of, writes_of
from streamjob.runtime.spark.handles import Table
from streamjob.runtime.spark.stream_writer import WriterOptions


def files(path: str, *, pattern: bool = False, nested: bool = False) -> Channel:
    return Channel("files", frozenset({path}), pattern, nested=nested)


def table(name: str, folder: str | None = None) -> Channel:
    return Channel("table", frozenset({name}), folder=folder)


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
        (topics("t"), topics("t", brokers="k2:9092"), True),  # perhaps another address of one cluster
        (topics("orders-eu"), topics("orders-.*", pattern=True), True),
        (topics("x-orders-eu"), topics("orders-.*", pattern=True), False),
        (topics("t"), topics(r"\p{Lower}+", pattern=True), True),  # only Java can read it
        (table("lake.db.t"), files("t"), False),
        (table("lake.db.t"), table("lake.db.t"), True),
        (table("lake.db.T"), table("lake.db.t"), True),
        (table("lake.db.t"), table("lake.other.t"), False),
        (table("spark_catalog.default.t", "file:/w/t"), files("file:/w/t"), True),
        (table("spark_catalog.default.t", "file:/w/t"), table("spark_catalog.default.t"), True),
        (table("spark_catalog.default.t", "file:/w/t"), files("file:/w/u"), False),
        (files("file:/w/t"), table("lake.db.t"), False),
        # Iceberg's load("lake.db.t"): the writer names the table, or the same path.
        (table("lake.db.t"), table("lake.db.t", "file:/w/lake.db.t"), True),
        (files("file:/w/lake.db.t"), table("lake.db.t", "file:/w/lake.db.t"), True),
        (files("file:/w/lake.db.u"), table("lake.db.t", "file:/w/lake.db.t"), False),
        # Written by its name, read by its folder.
        (table("lake.db.t", "file:/w/t"), table("file:/w/t", "file:/w/t"), True),
        (table("lake.db.t", "file:/w/u"), table("file:/w/t", "file:/w/t"), False),
        (None, files("file:/a"), False),
    ],
)
def test_feeds(sink: Channel | None, source: Channel, *, expected: bool) -> None:
    assert feeds(sink, source) is expected


@pytest.mark.parametrize(
    ("folder", "glob", "expected"),
    [
        ("file:/lake/bronze", "file:/lake/*", True),
        ("file:/lake/tmp/deep/bronze", "file:/lake/*", False),
        ("file:/lake/tmp/deep/bronze", "file:/lake/*/*/bronze", True),
        ("file:/lake/bronze/day=1", "file:/lake/*", True),
        ("file:/lake/bronze/eu/day=1", "file:/lake/*", True),
        ("file:/lake/b1", "file:/lake/b?", True),
        ("file:/lake/b12", "file:/lake/b?", False),
        ("file:/lake/b1", "file:/lake/b[0-4]", True),
        ("file:/lake/b1", "file:/lake/b[^0-4]", False),
        ("file:/lake/b1", "file:/lake/b[!5]", True),
        ("file:/lake/b", "file:/lake/{a,b}", True),
        ("file:/lake/c", "file:/lake/{a,b}", False),
        ("file:/lake/y/d", "file:/lake/{x,y/{c,d}}", True),
        ("file:/lake/y", "file:/lake/{x,y/{c,d}}", False),
        ("file:/lake/a*", r"file:/lake/a\*", True),
        ("file:/lake/a", "file:/lake/a/*.json", True),
        ("file:/lake", "file:/lake/*", True),
        ("file:/lake", "file:/lake/day=*/*.json", True),
        ("file:/lake", "file:/lake/*/bronze", False),
        ("s3a://lake/a", "s3a://lake/*", True),
        ("s3a://pond/a", "s3a://lake/*", False),
    ],
)
def test_a_glob_is_matched_by_components(folder: str, glob: str, *, expected: bool) -> None:
    assert feeds(files(folder), files(glob, pattern=True)) is expected


def test_a_sink_below_a_source_feeds_it() -> None:
    """Where Spark reads it: it finds partition folders at any depth, others only with recursiveFileLookup."""
    lake, everything = files("file:/lake"), files("file:/lake", nested=True)
    assert feeds(files("file:/lake/source=a"), lake)
    assert feeds(files("file:/lake/eu/source=a"), lake)
    assert feeds(files("file:/lake/bronze", nested=True), lake), "its partitions"
    assert not feeds(files("file:/lake/bronze"), lake)
    assert feeds(files("file:/lake/bronze"), everything)
    assert feeds(files("file:/lake/bronze"), files("file:/la*", pattern=True, nested=True))
    assert not feeds(files("file:/lakes/source=a"), lake)
    assert feeds(lake, files("file:/lake/day=1")), "a partition of what is written"
    assert not feeds(lake, files("file:/lake/bronze"))


@pytest.mark.parametrize(
    ("sinks", "source", "own"),
    [
        ([files("file:/lake/a")], files("file:/lake/a"), False),
        ([files("file:/lake/a")], files("file:/lake/*", pattern=True), True),
        ([files("file:/lake/a")], files("file:/lake/{a}", pattern=True), True),
        ([files("file:/lake/source=a")], files("file:/lake"), True),
        ([files("file:/lake/source=a"), files("file:/lake")], files("file:/lake"), False),
        ([files("file:/lake")], files("file:/lake/day=1"), True),
        ([topics("clean")], topics("clean"), False),
        ([topics("clean")], topics("clean", "clicks"), True),
        ([topics("clean"), topics("clicks")], topics("clean", "clicks"), False),
        ([topics("clean"), topics("clicks", brokers="k2:9092")], topics("clean", "clicks"), True),
        ([topics("clean")], topics("clean", pattern=True), True),
        ([table("lake.db.t")], table("lake.db.t"), False),
        ([table("lake.db.T")], table("lake.db.t"), True),
        ([files("file:/w/lake.db.t")], table("lake.db.t", "file:/w/lake.db.t"), False),
        ([table("spark_catalog.default.t", "file:/w/t")], files("file:/w/t"), False),
    ],
)
def test_what_no_other_query_writes(sinks: list[Channel], source: Channel, *, own: bool) -> None:
    """A pattern, a further topic and a parent folder hold what nobody in the job writes: a reader of them has
    not ended.
    """
    reader = Endpoints((source,), files("file:/out"))
    assert reader.has_own_sources([Endpoints((), sink) for sink in sinks], 0) is own
    assert all(reader.read(Endpoints((), sink)) for sink in sinks), "an edge all the same"


def test_a_declared_writer_accounts_for_one_name() -> None:
    loader = Endpoints((files("file:/in"),))
    assert not Endpoints((files("file:/loaded"),)).has_own_sources([loader], 1)
    assert Endpoints((files("file:/loaded/*", pattern=True),)).has_own_sources([loader], 1)
    two = Endpoints((topics("clean", "clicks"),))
    assert two.has_own_sources([loader], 1)
    assert not two.has_own_sources([loader, Endpoints((), topics("clean"))], 1)
    assert Endpoints((), unknown=1).has_own_sources([loader], 1)


def test_any_of_several_sources_is_enough() -> None:
    reader = Endpoints((files("file:/a"), topics("t")), files("file:/out"))
    assert reader.read(Endpoints((), topics("t")))
    assert not reader.read(Endpoints((), files("file:/elsewhere")))


def test_where_a_writer_writes() -> None:
    def qualify(path: str) -> str:
        return f"file:{path}"

    assert sink_of(WriterOptions("parquet", {"path": "/out"}), qualify) == files("file:/out")
    kafka = WriterOptions("kafka", {"topic": "t", "kafka.bootstrap.servers": "k1:9092, k2:9092"})
    assert sink_of(kafka, qualify) == topics("t", brokers="k1:9092,k2:9092")
    assert sink_of(WriterOptions("kafka", {}), qualify) is None, (
        "the topic is in a column: it has to be known otherwise"
    )
    assert sink_of(WriterOptions("json", {"path": "/out"}, partitioned=True), qualify) == files(
        "file:/out", nested=True
    )
    lake, local = Table("lake.db.t"), Table("spark_catalog.default.t", "/w/t")
    assert sink_of(WriterOptions(table="lake.db.t"), qualify, lake) == table("lake.db.t")
    assert sink_of(WriterOptions(table="t"), qualify, local) == table("spark_catalog.default.t", "file:/w/t")
    assert sink_of(WriterOptions(table="no table"), qualify) is None
    assert sink_of(WriterOptions("console"), qualify) is None


def test_neighbours_are_found_or_declared() -> None:
    """`router` chooses the topic by a column, `loader` writes with foreachBatch: neither shows where it
    writes.
    """
    router = Endpoints(
        (files("file:/in"),), sink_of(WriterOptions("kafka", {"kafka.bootstrap.servers": "k1:9092"}), str)
    )
    loader = Endpoints((topics("orders"),), sink_of(WriterOptions("foreachBatch"), str))
    totals = Endpoints((files("file:/loaded"),), files("file:/totals"))
    others = [("router", router), ("totals", totals)]
    assert neighbours("loader", loader, others) == ([], [])
    declared = [("router", "loader"), ("loader", "totals"), ("router", "audit")]
    assert neighbours("loader", loader, others, declared) == (["router"], ["totals"])
    assert neighbours("router", router, [], declared) == ([], [])
    assert neighbours("audit", Endpoints(), [], declared) == (["router"], []), "the writer may start later"
    shown = Endpoints((files("file:/totals"), topics("orders")))
    assert neighbours("shown", shown, others, [("router", "shown")]) == (["totals", "router"], []), (
        "found and declared"
    )


def test_a_reader_of_what_a_batch_function_wrote_reads_the_query() -> None:
    loader = Endpoints((topics("orders"),)).with_writes(files("file:/lake/batch=0"))
    reader = Endpoints((files("file:/lake/*", pattern=True),), files("file:/out"))
    assert neighbours("reader", reader, [("loader", loader)]) == (["loader"], [])
    assert neighbours("loader", loader, [("reader", reader)]) == ([], ["reader"])
    assert not reader.reads_sink_of(loader), "it may read more: it does not end with the loader"


def test_many_folders_of_a_batch_function_become_their_parent() -> None:
    loader = Endpoints()
    for batch in range(1000):
        loader = loader.with_writes(files(f"s3a://b/lake/{batch}"), files("s3a://b/log"))
    assert loader.wrote == (files("s3a://b/log"), files("s3a://b/lake", nested=True))
    assert Endpoints((files("s3a://b/lake/7"),)).read(loader)
    assert not Endpoints((files("s3a://b/other"),)).read(loader)


def test_a_bucket_does_not_stand_for_its_folders() -> None:
    loader = Endpoints().with_writes(*(files(f"s3a://b/{n}") for n in range(2 * MANY)))
    assert len(loader.wrote) == 2 * MANY


def test_a_table_that_a_batch_function_wrote_is_read_by_name_or_by_folder() -> None:
    seen = writes_of(
        WriterOptions(table="t"), Table("spark_catalog.default.t", "/w/t"), lambda path: f"file:{path}"
    )
    loader = Endpoints().with_writes(*seen)
    assert Endpoints((files("file:/w/t"),)).read(loader)
    assert Endpoints((table("spark_catalog.default.t"),)).read(loader)
    assert writes_of(WriterOptions("jdbc"), None, str) == ()
