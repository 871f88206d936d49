"""What the script has declared in words (`streamjob.job`), held against the queries that it has started.

A name that no query has would be found out at the end of the job only, by what it has lost: windows flushed too early, state
gone. So it is an error as soon as the script has started all of its queries.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from .. import job, state
from ..protocol.errors import StreamJobError
from .driverstate import StateNotKept


class QueryNotStarted(StreamJobError):
    """The script names a query that it has not started."""

    reason: ClassVar[str] = "QueryNotStarted"


def refuse_unknown(started: Collection[str]) -> None:
    """:param started: names of the queries that the script has started.

    :raises QueryNotStarted: an edge or a state is of another one. :raises StateNotKept: a state came after its query.
    """
    have = f"the script has started {', '.join(started) or 'none'}"
    for pair in job.edges():
        for name in pair:
            if name not in started:
                raise QueryNotStarted(
                    f"job.edge{pair!r} names {name!r}, which is no query of the job: {have}",
                    remedy="Correct the name; an edge to a query that starts later is declared when it starts",
                )
    for one in state.every():
        if one.query not in started:
            raise QueryNotStarted(
                f"state {one.name!r} is declared for query {one.query!r}, which is no query of the job: {have}",
                remedy="Declare it with query=NAME, the query's queryName",
            )
        if not one.held:
            raise StateNotKept(
                f"state {one.name!r} was declared when its query {one.query!r} had started",
                remedy="Declare it before the query starts",
            )
