"""Declaration check: compares what the script declared (`streamjob.job`) with the queries that it started.

A name that no query has would otherwise show only at the end of the job, by its damage: windows flushed too
early, state lost. So it is an error as soon as the script has started all its queries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import ClassVar

from .... import bounds, job, state
from ....protocol.errors import StreamJobError
from ...query.driver_state import StateNotKept
from ...query.run import Run
from ..sharding.declared_shards import DeclaredStages


class QueryNotStarted(StreamJobError):
    """The script names a query that it has not started."""

    reason: ClassVar[str] = "QueryNotStarted"


class ShardMissing(StreamJobError):
    reason = "ShardMissing"


def refuse_unknown(stages: Collection[str], queries: Collection[str]) -> None:
    """Check that every declaration names a query that the script has started.

    :param stages: uids of the started stages; edges connect stages.
    :param queries: names of the started queries; ends of input and states belong to queries.
    :raises QueryNotStarted: an edge, an end of input or a state names another query.
    :raises StateNotKept: a state was declared after its query had started.
    """
    have = f"the script has started {', '.join(queries) or 'none'}"
    for pair in job.edges():
        for name in pair:
            if name not in stages:
                raise QueryNotStarted(
                    f"job.edge{pair!r} names {name!r}, which is no query of the job: {have}",
                    remedy="Correct the name; an edge to a query that starts later is declared when it "
                    "starts",
                )
    for name in bounds.queries():
        if name not in queries:
            raise QueryNotStarted(
                f"job.bounded() names query {name!r}, which is no query of the job: {have}",
                remedy="Declare it with query=NAME, the query's queryName",
            )
    for one in state.every():
        if one.query not in queries:
            raise QueryNotStarted(
                f"state {one.name!r} is declared for query {one.query!r}, which is no query of the job: "
                f"{have}",
                remedy="Declare it with query=NAME, the query's queryName",
            )
        if not one.held:
            raise StateNotKept(
                f"state {one.name!r} was declared when its query {one.query!r} had started",
                remedy="Declare it before the query starts",
            )


def refuse_missing(declared: DeclaredStages, runs: Iterable[Run]) -> None:
    """Check that the script has started every declared shard.

    :raises ShardMissing: it has not, so no query would read that shard's share.
    """
    started = {run.name.name for run in runs}
    for shard in declared.shards():
        if shard.name not in started:
            raise ShardMissing(
                f"shard {shard.index} of stage {shard.uid!r} was not started: nobody would read its share",
                remedy=f"Start a query with the name {shard.name!r}, as for each shard that job.shards() "
                "gives",
            )
