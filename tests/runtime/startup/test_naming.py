"""Which task of the job a query is: by its name, by its checkpoint location, or as the one without a name."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import IllegalArgumentException

from streamjob.protocol.formats.records import JobRef
from streamjob.protocol.graph import TaskName
from streamjob.protocol.messages.driver_config import Application, DriverConfig
from streamjob.runtime.query.edges import Channel, Ends
from streamjob.runtime.query.likeness import Likeness
from streamjob.runtime.spark.engine import Engine
from streamjob.runtime.spark.stream_writer import Written
from streamjob.runtime.startup.checks.declarations import ShardMissing, refuse_missing
from streamjob.runtime.startup.naming import DuplicateStage, refuse_shards, task_name
from streamjob.runtime.startup.recognition import UnnamedStage
from streamjob.runtime.startup.restore_point import RestorePoints
from streamjob.runtime.startup.sharding.declared_shards import DeclaredStages
from streamjob.shards import BadShards

CONFIG = DriverConfig(JobRef("n", "j", "u"), 1, Application(file="app.py"), "file:/checkpoints")
HERE, ELSEWHERE = (Engine(None, None, None) for _ in range(2))  # type: ignore[arg-type]
LIKE = Likeness("plan", "noop", None, None, (None, None))
ORDERS, CLICKS = (Ends((Channel("files", frozenset({name})),)) for name in ("orders", "clicks"))


def declared(**stages: int) -> DeclaredStages:
    found = DeclaredStages(RestorePoints(CONFIG), lambda uid, parallelism: None)
    for uid, parallelism in stages.items():
        found.declare(uid, parallelism)
    return found


def run(name: str, *, over: bool = False, at: str = "", ends: Ends | None = None, engine: Any = HERE) -> Any:
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
        ends=ends or Ends(),
        unnamed=ends is not None,
        engine=engine,
        likeness=LIKE,
    )


def named(
    name: str | None,
    *runs: Any,
    stages: DeclaredStages | None = None,
    at: str | None = None,
    ends: Ends = ORDERS,
    restored: dict[str, str] | None = None,
    likeness: Likeness | None = LIKE,
) -> TaskName:
    known = {r.name.task: r for r in runs}
    return task_name(
        Written(name=name), at, ends, known, stages or declared(), restored or {}, HERE, likeness
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
        refuse_missing(stages, {"a/0": run("a/0"), "b": run("b")})
    refuse_missing(stages, {"a/0": run("a/0"), "a/1": run("a/1")})


def test_r4_a_name_is_taken_only_while_its_query_is_active() -> None:
    assert named("a", run("a", over=True)).task == "a"
    with pytest.raises(IllegalArgumentException, match="already active in this SparkSession") as e:
        named("a", run("a"))
    assert type(e.value).__name__ == "IllegalArgumentException", "Spark's own"
    assert isinstance(e.value, DuplicateStage), "with a reason and a remedy, if the script does not catch it"
    with pytest.raises(DuplicateStage, match="another session"):
        named("a", run("a", engine=ELSEWHERE))


def test_queries_without_names_are_told_apart_by_where_their_checkpoints_are() -> None:
    first = run("main", at="file:/chk/bronze", ends=ORDERS)
    assert named(None, at="file:/chk/bronze").uid == "main"
    assert named(None, first, at="file:/chk/silver").uid == "silver"
    assert named(None, run("main", over=True, at="file:/chk/bronze"), at="file:/chk/bronze/").uid == "main"
    with pytest.raises(UnnamedStage):
        named(None, first, at="file:/chk/bronze")


def test_a_query_without_a_name_goes_on_as_the_stage_that_had_its_checkpoints_before() -> None:
    restored = {"main": "file:/chk/bronze", "silver": "file:/chk/silver"}
    assert named(None, at="file:/chk/silver", restored=restored).uid == "silver"
    assert named(None, at="file:/chk/gold", restored=restored).uid == "gold"
    assert named(None, at="file:/elsewhere/silver", restored=restored).uid == "silver-2"


def test_queries_without_names_and_places_are_told_apart_by_what_they_read_and_write() -> None:
    assert named(None, run("main", ends=CLICKS)).uid == "main-2"
    assert named(None, run("main", over=True, ends=ORDERS), run("main-2", ends=CLICKS)).uid == "main"
    with pytest.raises(UnnamedStage):
        named(None, run("main", ends=ORDERS))


def test_a_query_without_a_name_is_known_again_whatever_its_function_has_written() -> None:
    wrote = ORDERS.with_writes(Channel("files", frozenset({"file:/out"})))
    assert named(None, run("main", over=True, ends=wrote)).uid == "main"
