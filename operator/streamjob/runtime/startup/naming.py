"""Which task of the job a query is: by name, by checkpoint location, or by what it reads and writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.errors import IllegalArgumentException

from ...job import ONLY_QUERY
from ...protocol.errors import StreamJobError
from ...protocol.graph import TaskName
from ...shards import Shard
from ...storage.file_systems import canonical
from ..query.definition import Definition
from ..query.endpoints import RecordedEndpoints
from ..query.run import Run
from ..spark.engine import Engine
from ..spark.stream_writer import WriterOptions
from .sharding.declared_shards import DeclaredStages

SECOND = (
    "the script starts a second query that has neither a queryName nor a checkpointLocation: a savepoint "
    "could not tell the two apart"
)
EACH_A_NAME = "Give each query a queryName"
REMEDY = "Give each query a queryName of its own, or stop the other one first"


class QueryNameMissing(StreamJobError):
    reason = "QueryNameMissing"


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
    said: WriterOptions,
    location: str | None,
    unnamed: Definition | None,
    runs: Mapping[str, Run],
    declared: DeclaredStages,
    restored: Mapping[str, str],
    engine: Engine,
    *,
    elsewhere: bool = False,
) -> TaskName:
    """The task that a query runs as.

    :param said: what the script set on the writer.
    :param location: the query's checkpoint location, qualified; None if the script chose none.
    :param unnamed: the query, if it has neither a name nor a location.
    :param runs: the last run of each task.
    :param restored: checkpoint locations of the restored stages, by uid, as far as they are known.
    :param engine: of the session that the query starts in.
    :param elsewhere: the stage `ONLY_QUERY` of the restored checkpoint has a location that the script chose.
    :raises NameIsActive: a query of this name is active in the same session.
    :raises DuplicateStage: one is active in another session, or the name is that of a sharded stage.
    :raises QueryNameMissing: it is a second query without a name and a location.
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
    by_uid = {run.uid: run for run in runs.values()}
    if unnamed is not None:
        return _only_unnamed(unnamed, by_uid, elsewhere=elsewhere)
    assert location is not None
    uid = _at(location, by_uid, restored)
    if (run := by_uid.get(uid)) is not None and run.is_active:
        raise DuplicateStage(
            f"the script starts two queries without a queryName at the checkpointLocation {location}",
            remedy="Give each query a checkpointLocation of its own, or stop the other one first",
        )
    return TaskName(uid, uid)


def _only_unnamed(unnamed: Definition, runs: Mapping[str, Run], *, elsewhere: bool) -> TaskName:
    """The task of the only query without a name and a location. It is called `ONLY_QUERY` if that is free."""
    for uid, run in runs.items():
        if run.unnamed is None:
            continue
        if run.is_active:
            raise QueryNameMissing(SECOND, remedy=EACH_A_NAME)
        if not run.unnamed.same_as(unnamed):
            raise QueryNameMissing(
                "the script starts a query that has neither a queryName nor a checkpointLocation, and before "
                "it another one, which reads, does or writes something else: it would begin behind what that "
                "one has read",
                remedy=EACH_A_NAME,
            )
        return TaskName(uid, uid)
    uid = f"{ONLY_QUERY}-2" if elsewhere or ONLY_QUERY in runs else ONLY_QUERY
    return TaskName(uid, uid)


def refuse_other_query(uid: str, now: RecordedEndpoints | None, noted: RecordedEndpoints | None) -> None:
    """Check that the unnamed query of an earlier driver reads and writes what it did.

    :param now: what the query reads and writes, None if that is not fully known.
    :param noted: what it did at its last start, None if that is not known.
    :raises QueryNameMissing: it may be another query.
    """
    if (
        now is None
        or noted is None
        or (now.sources, now.sink, now.writer)
        == (
            noted.sources,
            noted.sink,
            noted.writer,
        )
    ):
        return
    raise QueryNameMissing(
        f"the script's query without a queryName and a checkpointLocation {_what(now)}; the one that ran as "
        f"{uid!r} in an earlier driver {_what(noted)}",
        remedy=f"Give it the queryName {uid!r} if it is the same query, else another one",
    )


def _what(ends: RecordedEndpoints) -> str:
    sources = ", ".join(map(str, ends.sources)) or "nothing"
    return f"reads {sources} and writes through {ends.sink or ends.writer or 'an unknown sink'}"


def _at(location: str, runs: Mapping[str, Run], restored: Mapping[str, str]) -> str:
    """The uid of the stage whose checkpoints are at `location`, else a new uid.

    The new uid is `ONLY_QUERY` if that is free, else the last path component of the location, numbered if it
    is taken.
    """
    places = {**restored, **{uid: run.directory.uri for uid, run in runs.items()}}
    for uid, place in places.items():
        if canonical(place) == canonical(location):
            return uid
    return _first_free([ONLY_QUERY, location.rstrip("/").rpartition("/")[2] or ONLY_QUERY], places)


def _first_free(wanted: list[str], taken: Collection[str]) -> str:
    for uid in wanted:
        if uid not in taken:
            return uid
    number = 2
    while f"{wanted[-1]}-{number}" in taken:
        number += 1
    return f"{wanted[-1]}-{number}"


def refuse_shards(uid: str, parallelism: int, runs: Mapping[str, Run]) -> None:
    """Check that the names of a new sharded stage are free.

    :raises DuplicateStage: a query that has not failed has the name of the stage or of one of its shards.
    """
    names = {uid, *(Shard(uid, index, parallelism).name for index in range(parallelism))}
    for run in runs.values():
        if run.name.name in names and run.failure is None:
            raise DuplicateStage(
                f"the script declares shards of {uid!r} and has a query {run.name.name!r} already",
                remedy="Give each query a name of its own",
            )


def _refuse_active(runs: Mapping[str, Run], name: str, engine: Engine) -> None:
    active = [run for run in runs.values() if run.name.name == name and run.is_active]
    if any(run.engine is engine for run in active):
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
