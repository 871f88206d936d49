"""What the script has declared in words (`streamjob.job`), held against the queries that it has started.

A name that no query has would be found out at the end of the job only, by what it has lost: windows flushed too early, state
gone. So it is an error as soon as the script has started all of its queries.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from ... import bounds, job, state
from ...protocol.errors import StreamJobError
from ..query.driver_state import StateNotKept


class QueryNotStarted(StreamJobError):
    """The script names a query that it has not started."""

    reason: ClassVar[str] = "QueryNotStarted"


def refuse_unknown(stages: Collection[str], queries: Collection[str]) -> None:
    """:param stages: uids of what the script has started: edges are between stages. :param queries: names: states are of queries.

    :raises QueryNotStarted: an edge, an end or a state is of another one. :raises StateNotKept: a state came after its query.
    """
    have = f"the script has started {', '.join(queries) or 'none'}"
    for pair in job.edges():
        for name in pair:
            if name not in stages:
                raise QueryNotStarted(
                    f"job.edge{pair!r} names {name!r}, which is no query of the job: {have}",
                    remedy="Correct the name; an edge to a query that starts later is declared when it starts",
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
                f"state {one.name!r} is declared for query {one.query!r}, which is no query of the job: {have}",
                remedy="Declare it with query=NAME, the query's queryName",
            )
        if not one.held:
            raise StateNotKept(
                f"state {one.name!r} was declared when its query {one.query!r} had started",
                remedy="Declare it before the query starts",
            )
