"""Which task of the job a query is, by its name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamjob.protocol.messages import Application, DriverConfig
from streamjob.protocol.records import JobRef
from streamjob.runtime.declared import DeclaredStages
from streamjob.runtime.stage import TaskName
from streamjob.runtime.start import (
    DuplicateStage,
    ShardMissing,
    UnnamedStage,
    refuse_missing,
    refuse_shards,
    stage_name,
)
from streamjob.shards import BadShards

CONFIG = DriverConfig(JobRef("n", "j", "u"), 1, Application(file="app.py"), "file:/checkpoints")


def declared(**stages: int) -> DeclaredStages:
    found = DeclaredStages(CONFIG, lambda uid, parallelism: None)
    for uid, parallelism in stages.items():
        found.declare(uid, parallelism)
    return found


def running(*names: str) -> dict[str, Any]:
    return {n: SimpleNamespace(name=TaskName(n, n), failure=None) for n in names}


def test_row9_only_what_was_declared_has_shards() -> None:
    shard = stage_name("a/1", {}, declared(a=2))
    assert (shard.uid, shard.index, shard.task) == ("a", 1, "a/1")
    for name, task in (("a/1", "a/1/0"), ("a/2", "a/2/0"), ("b", "b"), (None, "main")):
        other = stage_name(name, {}, declared(a=1))
        assert (other.uid, other.index, other.task) == (name or "main", 0, task)
    assert stage_name("a/0", {}, declared(a=1)).task == "a", "a stage of one task"


def test_row9_a_name_is_taken_once() -> None:
    with pytest.raises(DuplicateStage):
        stage_name("a", {}, declared(a=2))
    with pytest.raises(DuplicateStage):
        stage_name("a/0", running("a/0"), declared(a=2))
    for taken in ("a", "a/1"):
        with pytest.raises(DuplicateStage, match="has a query"):
            refuse_shards("a", 2, running(taken))
    refuse_shards("a", 2, running("a/2", "b"))
    with pytest.raises(UnnamedStage):
        stage_name(None, running("a/0"), declared(a=2))
    with pytest.raises(BadShards, match="2 and with 3"):
        declared(a=2).declare("a", 3)


def test_row9_a_shard_that_is_not_started_is_missed() -> None:
    stages = declared(a=2)
    with pytest.raises(ShardMissing, match="shard 1 of stage 'a'"):
        refuse_missing(stages, running("a/0", "b"))
    refuse_missing(stages, running("a/0", "a/1"))
