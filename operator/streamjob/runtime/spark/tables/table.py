"""What the rooms above need of a table, whatever its format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pyspark.sql import DataFrame

# The newest commits of a table, which are looked at before its whole history is. Among them are those of
# other writers, and those of batches behind a live savepoint.
NEWEST = 100


@dataclass(frozen=True)
class Commit:
    """A batch of a streaming query in a table.

    :param batch: its number in that query.
    :param version: of the table, since that commit. Of Delta its number, of Iceberg the snapshot's id.
    """

    batch: int
    version: int


@dataclass(frozen=True)
class TakenBack:
    """Batches that somebody took out of a table by restoring an older version of it.

    :param first: the first of them.
    :param last: the last of them.
    :param redo: the SQL statement that brings them back, or what else has to be done.
    """

    first: int
    last: int
    redo: str


class Table(Protocol):
    """A table that a query writes to, with the versions that its format keeps.

    :ivar name: as SQL takes it.
    :ivar format: `delta` or `iceberg`.
    """

    name: str
    format: str

    def skipped_up_to(self, query_id: str) -> int | None:
        """The last batch of the query that the table takes for written. It skips that one and all before.

        :raises PySparkException: the table cannot be read.
        """

    def commits(self, query_id: str, newest: int | None = None) -> list[Commit]:
        """The query's batches whose rows are in the table as it is now, newest first.

        Rows of a batch that was rolled back are not. As far as the table's history goes.

        :param newest: read only so many of the table's newest commits, if the format can.
        :raises PySparkException: the table cannot be read.
        """

    def taken_back(self, query_id: str, there: int, done: int) -> TakenBack | None:
        """The query's batches that somebody took out of the table by restoring an older version of it.

        Without those that the table has again. As far as the table's history goes.

        :param there: the last batch that the table has; -1 if it has none.
        :param done: the last batch that the query would not write again. Only those between the two count.
        :returns: None if there is no evidence of any.
        :raises PySparkException: the table cannot be read.
        """

    def unfit(self, rows: DataFrame, options: Mapping[str, str]) -> str | None:
        """Why the table would not take the rows of a query, None if it would or if that is not known.

        :param options: of the query's writer, with keys in lower case.
        :raises PySparkException: the table cannot be read.
        """

    def rollback(self, version: int) -> str:
        """The SQL statement that brings the table back to a version, or what else has to be done."""


def taken_back(lost: Iterable[Commit], there: int, done: int, redo: Callable[[int], str]) -> TakenBack | None:
    """As `Table.taken_back`, of a table that keeps what was taken back.

    :param lost: all batches of the query that were taken back.
    :param redo: the statement that brings the table to a version that was taken back.
    """
    counted = [commit for commit in lost if there < commit.batch <= done]
    if not counted:  # they had no rows, or the history does not go so far back
        return None
    newest = max(counted, key=lambda commit: commit.batch)
    return TakenBack(min(commit.batch for commit in counted), newest.batch, redo(newest.version))
