"""Which task of the job a query is: by its name, by its checkpoint location, or as the one without a name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.errors import IllegalArgumentException

from ...job import ONLY_QUERY
from ...protocol.errors import StreamJobError
from ...shards import Shard
from ..query.edges import Ends
from ..query.task import Stage, TaskName
from ..spark.stream_writer import Written
from .declared_shards import DeclaredStages


class DuplicateStage(StreamJobError, IllegalArgumentException):
    """A query of this name is active. Spark refuses it in a session; a job is all of the script's sessions."""

    reason = "DuplicateQueryName"


class UnnamedStage(StreamJobError):
    reason = "QueryNameMissing"


def task_name(
    said: Written,
    location: str | None,
    found: Ends,
    runs: Mapping[str, Stage],
    declared: DeclaredStages,
    restored: Mapping[str, str],
) -> TaskName:
    """:param location: of its checkpoints, if the script has chosen one, qualified. :param runs: the last of each task.
    :param restored: where the stages that the job goes on with have their checkpoints, as far as that is known, by uid.

    :raises DuplicateStage, UnnamedStage: it cannot be told from an active query.
    """
    if (shard := declared.find(said.name)) is not None:
        task = TaskName(shard[0].uid, shard[0].name, shard[0].index, shard[0].parallelism)
        _refuse_active(runs, task.name)
        return task
    if said.name is not None:
        if said.name in declared:
            raise DuplicateStage(
                f"the script starts a query {said.name!r} and declares shards of that name",
                remedy="Give each shard's query the name shard.name, and others names of their own",
            )
        _refuse_active(runs, said.name)
        return TaskName(said.name, said.name)
    by_uid = {stage.uid: stage for stage in runs.values()}
    uid = _at(location, by_uid, restored) if location else _like(found, by_uid)
    run = by_uid.get(uid)
    if run is not None and not run.over.is_set():
        raise UnnamedStage(
            "the script starts several queries and two without a name cannot be told apart: a savepoint could not, either",
            remedy="Give each query a queryName",
        )
    return TaskName(uid, uid)


def _at(location: str, runs: Mapping[str, Stage], restored: Mapping[str, str]) -> str:
    """By where its checkpoints are: the stage that has them there, else a new one, named after the place."""
    places = {**restored, **{uid: stage.directory.uri for uid, stage in runs.items()}}
    for uid, place in places.items():
        if place.rstrip("/") == location.rstrip("/"):
            return uid
    return _first_free([ONLY_QUERY, location.rstrip("/").rpartition("/")[2] or ONLY_QUERY], places)


def _like(found: Ends, runs: Mapping[str, Stage]) -> str:
    """By what it reads and writes: the stage of a run that was alike, else a new one."""
    for uid, stage in runs.items():
        if stage.unnamed and stage.ends == found:
            return uid
    return _first_free([ONLY_QUERY], runs)


def _first_free(wanted: list[str], taken: Collection[str]) -> str:
    for uid in wanted:
        if uid not in taken:
            return uid
    number = 2
    while f"{wanted[-1]}-{number}" in taken:
        number += 1
    return f"{wanted[-1]}-{number}"


def refuse_shards(uid: str, parallelism: int, runs: Mapping[str, Stage]) -> None:
    """:raises DuplicateStage: a query runs under the name of the stage, or of one of its shards."""
    names = {uid, *(Shard(uid, index, parallelism).name for index in range(parallelism))}
    for stage in runs.values():
        if stage.name.name in names and stage.failure is None:
            raise DuplicateStage(
                f"the script declares shards of {uid!r} and has a query {stage.name.name!r} already",
                remedy="Give each query a name of its own",
            )


def _refuse_active(runs: Mapping[str, Stage], name: str) -> None:
    if any(stage.name.name == name and not stage.over.is_set() for stage in runs.values()):
        raise DuplicateStage(
            f"Cannot start query with name {name} as a query with that name is already active in this SparkSession",
            remedy="Give each query a queryName of its own, or stop the other one first",
        )
