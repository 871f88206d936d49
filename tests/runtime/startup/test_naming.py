"""Which task of the job a query is: by its name, by its checkpoint location, or as the one without a name."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException

from streamjob.protocol.formats.records import JobRef
from streamjob.protocol.graph import TaskName
from streamjob.protocol.messages.driver_config import Application, DriverConfig
from streamjob.runtime.query.definition import Definition
from streamjob.runtime.query.edges import Channel, Endpoints
from streamjob.runtime.query.endpoints import Endpoint, RecordedEndpoints
from streamjob.runtime.spark.engine import Engine
from streamjob.runtime.spark.stream_writer import WriterOptions
from streamjob.runtime.startup.checks.declarations import ShardMissing, refuse_missing
from streamjob.runtime.startup.naming import (
    DuplicateStage,
    QueryNameMissing,
    refuse_other_query,
    refuse_shards,
    task_name,
)
from streamjob.runtime.startup.restore_point import RestorePoints
from streamjob.runtime.startup.sharding.declared_shards import DeclaredStages
from streamjob.shards import BadShards

CONFIG = DriverConfig(JobRef("n", "j", "u"), 1, Application(file="app.py"), "file:/checkpoints")
HERE, ELSEWHERE = (Engine(None, None, None) for _ in range(2))  # type: ignore[arg-type]
ORDERS, CLICKS = (
    Definition("plan", Endpoints((Channel("files", frozenset({name})),)), "noop", None, None, (None, None))
    for name in ("orders", "clicks")
)


def declared(**stages: int) -> DeclaredStages:
    found = DeclaredStages(RestorePoints(CONFIG), lambda uid, parallelism: None)
    for uid, parallelism in stages.items():
        found.declare(uid, parallelism)
    return found


def run(
    name: str, *, over: bool = False, at: str = "", unnamed: Definition | None = None, engine: Any = HERE
) -> Any:
    event = threading.Event()
    if over:
        event.set()
    directory = SimpleNamespace(uri=at or f"file:/checkpoints/{name}/0")
    return SimpleNamespace(
        name=TaskName(name, name),
        uid=name,
        failure=None,
        over=event,
        is_active=not over,
        directory=directory,
        unnamed=unnamed,
        engine=engine,
    )


def named(
    name: str | None,
    *runs: Any,
    stages: DeclaredStages | None = None,
    at: str | None = None,
    unnamed: Definition = ORDERS,
    restored: dict[str, str] | None = None,
    elsewhere: bool = False,
) -> TaskName:
    known = {r.name.task: r for r in runs}
    given = unnamed if name is None and at is None else None
    return task_name(
        WriterOptions(name=name),
        at,
        given,
        known,
        stages or declared(),
        restored or {},
        HERE,
        elsewhere=elsewhere,
    )


def test_row9_only_what_was_declared_has_shards() -> None:
    shard = named("a/1", stages=declared(a=2))
    assert (shard.uid, shard.index, shard.task) == ("a", 1, "a/1")
    for name, task in (("a/1", "a/1/0"), ("a/2", "a/2/0"), ("b", "b"), (None, "main")):
        other = named(name, stages=declared(a=1))
        assert (other.uid, other.index, other.task) == (name or "main", 0, task)
    assert named("a/0", stages=declared(a=1)).task == "a", "a stage of one task"


def test_row9_a_name_of_a_stage_of_shards_is_taken() -> None:
    with pytest.raises(DuplicateStage):
        named("a", stages=declared(a=2))
    for taken in ("a", "a/1"):
        with pytest.raises(DuplicateStage, match="has a query"):
            refuse_shards("a", 2, {taken: run(taken)})
    refuse_shards("a", 2, {"a/2": run("a/2"), "b": run("b")})
    with pytest.raises(BadShards, match="2 and with 3"):
        declared(a=2).declare("a", 3)


def test_row9_a_shard_that_is_not_started_is_missed() -> None:
    stages = declared(a=2)
    with pytest.raises(ShardMissing, match="shard 1 of stage 'a'"):
        refuse_missing(stages, [run("a/0"), run("b")])
    refuse_missing(stages, [run("a/0"), run("a/1")])


def test_r4_a_name_is_taken_only_while_its_query_is_active() -> None:
    assert named("a", run("a", over=True)).task == "a"
    with pytest.raises(IllegalArgumentException, match="already active in this SparkSession") as e:
        named("a", run("a"))
    assert type(e.value).__name__ == "IllegalArgumentException", "Spark's own"
    assert isinstance(e.value, DuplicateStage), "with a reason and a remedy, if the script does not catch it"
    with pytest.raises(DuplicateStage, match="another session"):
        named("a", run("a", engine=ELSEWHERE))


def test_queries_without_names_are_told_apart_by_where_their_checkpoints_are() -> None:
    first = run("main", at="file:/chk/bronze")
    assert named(None, at="file:/chk/bronze").uid == "main"
    assert named(None, first, at="file:/chk/silver").uid == "silver"
    assert named(None, run("main", over=True, at="file:/chk/bronze"), at="file:/chk/bronze/").uid == "main"
    with pytest.raises(DuplicateStage, match="at the checkpointLocation file:/chk/bronze"):
        named(None, first, at="file:/chk/bronze")


def test_a_query_without_a_name_goes_on_as_the_stage_that_had_its_checkpoints_before() -> None:
    restored = {"main": "file:/chk/bronze", "silver": "file:/chk/silver"}
    assert named(None, at="file:/chk/silver", restored=restored).uid == "silver"
    assert named(None, at="file:/chk/gold", restored=restored).uid == "gold"
    assert named(None, at="file:/elsewhere/silver", restored=restored).uid == "silver-2"


@pytest.mark.parametrize(
    "second", [pytest.param(ORDERS, id="that is the same"), pytest.param(CLICKS, id="that is another one")]
)
def test_a_second_query_without_a_name_and_a_checkpoint_location_is_refused(second: Definition) -> None:
    with pytest.raises(QueryNameMissing, match="could not tell the two apart") as e:
        named(None, run("main", unnamed=ORDERS), unnamed=second)
    assert e.value.remedy == "Give each query a queryName"


def test_the_only_query_without_both_may_start_again_if_it_is_the_same() -> None:
    assert named(None, run("main", over=True, unnamed=ORDERS), run("b")).uid == "main"
    for other in (CLICKS, replace(ORDERS, plan="another"), replace(ORDERS, functions=(print, None))):
        with pytest.raises(QueryNameMissing, match="begin behind"):
            named(None, run("main", over=True, unnamed=ORDERS), unnamed=other)


def test_the_only_query_without_both_has_a_name_of_its_own_beside_one_with_a_location() -> None:
    """In either order, and in the next epoch."""
    assert named(None, run("main", at="file:/chk/bronze")).uid == "main-2"
    assert named(None, elsewhere=True).uid == "main-2"
    assert named(None, run("main", unnamed=ORDERS), at="file:/chk/bronze").uid == "bronze"


NOTED = RecordedEndpoints("f", 1, (Endpoint("files", "file:/in"),), Endpoint("files", "file:/out"))


def test_an_unnamed_query_of_an_earlier_driver_reads_and_writes_the_same() -> None:
    refuse_other_query("main", NOTED, NOTED)
    refuse_other_query("main", NOTED, None)
    refuse_other_query("main", None, NOTED)
    refuse_other_query("main", replace(NOTED, spark="4.3"), NOTED)
    for other in (
        replace(NOTED, sources=(Endpoint("files", "file:/elsewhere"),)),
        replace(NOTED, sink=Endpoint("files", "file:/elsewhere")),
        replace(NOTED, sink=None, writer="each_batch"),
    ):
        with pytest.raises(
            QueryNameMissing, match="in an earlier driver reads files file:/in and writes"
        ) as e:
            refuse_other_query("main", other, NOTED)
        assert "the queryName 'main' if it is the same query" in e.value.remedy
