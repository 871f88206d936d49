"""Which task of the job a query is: by name, by checkpoint location, or by what it reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from pyspark.errors import IllegalArgumentException

from ...job import ONLY_QUERY
from ...protocol.errors import StreamJobError
from ...protocol.graph import TaskName
from ...shards import Shard
from ..query.edges import Ends
from ..query.likeness import Likeness
from ..query.task import Stage
from ..spark.engine import Engine
from ..spark.stream_writer import Written
from .recognition import UnnamedStage
from .sharding.declared_shards import DeclaredStages

REMEDY = "Give each query a queryName of its own, or stop the other one first"


class DuplicateStage(StreamJobError, IllegalArgumentException):
    """The job has a query of this name already: in another session of the script, or as shards."""

    reason = "DuplicateQueryName"


class NameIsActive(DuplicateStage):
    """The session has an active query of this name, which Spark itself refuses.

    A script that prints or logs what it catches sees the name of Spark's exception. If it does not catch it,
    the job has a reason and a remedy.
    """


NameIsActive.__name__ = NameIsActive.__qualname__ = IllegalArgumentException.__name__
NameIsActive.__module__ = IllegalArgumentException.__module__


def task_name(
    said: Written,
    location: str | None,
    found: Ends,
    runs: Mapping[str, Stage],
    declared: DeclaredStages,
    restored: Mapping[str, str],
    engine: Engine,
    likeness: Likeness | None,
    earlier: Callable[[], tuple[str | None, Collection[str]]] = lambda: (None, ()),
) -> TaskName:
    """The task that a query runs as.

    :param said: what the script set on the writer.
    :param location: the query's checkpoint location, qualified; None if the script chose none.
    :param found: what the query reads and writes.
    :param runs: the last run of each task.
    :param restored: checkpoint locations of the restored stages, by uid, as far as they are known.
    :param engine: of the session that the query starts in.
    :param likeness: what the query is recognized by if it has neither a name nor a checkpoint location.
    :param earlier: finds the query of an earlier epoch that it is: its uid, None for a new query; and the
        uids of all those queries.
    :raises NameIsActive: a query of this name is active in the same session.
    :raises DuplicateStage: one is active in another session, or the name is that of a sharded stage.
    :raises UnnamedStage: a query without a name cannot be told from an active one.
    """
    if (shard := declared.find(said.name)) is not None:
        task = TaskName(shard[0].uid, shard[0].name, shard[0].index, shard[0].parallelism)
        _refuse_active(runs, task.name, engine)
        return task
    if said.name is not None:
        if said.name in declared:
            raise DuplicateStage(
                f"the script starts a query {said.name!r} and declares shards of that name",
                remedy="Give each shard's query the name shard.name, and others names of their own",
            )
        _refuse_active(runs, said.name, engine)
        return TaskName(said.name, said.name)
    by_uid = {stage.uid: stage for stage in runs.values()}
    uid = _at(location, by_uid, restored) if location else _like(found, likeness, by_uid, earlier)
    run = by_uid.get(uid)
    alike = location is None and any(_reads_as(found, s) and s.is_active for s in by_uid.values())
    if alike or (run is not None and run.is_active):
        raise UnnamedStage(
            "the script starts several queries and two without a name cannot be told apart: a savepoint "
            "could not, either",
            remedy="Give each query a queryName",
        )
    return TaskName(uid, uid)


def _at(location: str, runs: Mapping[str, Stage], restored: Mapping[str, str]) -> str:
    """The uid of the stage whose checkpoints are at `location`, else a new uid.

    The new uid is `ONLY_QUERY` if that is free, else the last path component of the location, numbered if it
    is taken.
    """
    places = {**restored, **{uid: stage.directory.uri for uid, stage in runs.items()}}
    for uid, place in places.items():
        if place.rstrip("/") == location.rstrip("/"):
            return uid
    return _first_free([ONLY_QUERY, location.rstrip("/").rpartition("/")[2] or ONLY_QUERY], places)


def _like(
    found: Ends,
    likeness: Likeness | None,
    runs: Mapping[str, Stage],
    earlier: Callable[[], tuple[str | None, Collection[str]]],
) -> str:
    """The uid of an unnamed run of the same query, in this epoch or an earlier one, else a new uid."""
    for uid, stage in runs.items():
        theirs = stage.likeness
        alike = theirs is not None and likeness is not None and theirs.same_as(likeness)
        if alike and _reads_as(found, stage):
            return uid
    known, taken = earlier()
    return known or _first_free([ONLY_QUERY], {*runs, *taken})


def _reads_as(found: Ends, stage: Stage) -> bool:
    # What a foreachBatch function writes is known only once it has run.
    return stage.unnamed and replace(stage.ends, wrote=()) == found


def _first_free(wanted: list[str], taken: Collection[str]) -> str:
    for uid in wanted:
        if uid not in taken:
            return uid
    number = 2
    while f"{wanted[-1]}-{number}" in taken:
        number += 1
    return f"{wanted[-1]}-{number}"


def refuse_shards(uid: str, parallelism: int, runs: Mapping[str, Stage]) -> None:
    """Check that the names of a new sharded stage are free.

    :raises DuplicateStage: a query that has not failed has the name of the stage or of one of its shards.
    """
    names = {uid, *(Shard(uid, index, parallelism).name for index in range(parallelism))}
    for stage in runs.values():
        if stage.name.name in names and stage.failure is None:
            raise DuplicateStage(
                f"the script declares shards of {uid!r} and has a query {stage.name.name!r} already",
                remedy="Give each query a name of its own",
            )


def _refuse_active(runs: Mapping[str, Stage], name: str, engine: Engine) -> None:
    active = [stage for stage in runs.values() if stage.name.name == name and stage.is_active]
    if any(stage.engine is engine for stage in active):
        raise NameIsActive(
            f"Cannot start query with name {name} as a query with that name is already active in this "
            "SparkSession",
            remedy=REMEDY,
        )
    if active:
        raise DuplicateStage(
            f"a query {name!r} is active in another session of the script: a savepoint could not tell the "
            "two apart",
            remedy=REMEDY,
        )
