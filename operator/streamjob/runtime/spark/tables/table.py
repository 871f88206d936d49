"""What the rooms above need of a table, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
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
    :param version: of the table, since that commit.
    """

    batch: int
    version: int


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

    def taken_back(self, query_id: str) -> list[Commit]:
        """The query's batches that somebody took out of the table by restoring an older version of it.

        Without those that the table has again. As far as the table's history goes.

        :raises PySparkException: the table cannot be read.
        """

    def unfit(self, rows: DataFrame, options: Mapping[str, str]) -> str | None:
        """Why the table would not take the rows of a query, None if it would or if that is not known.

        :param options: of the query's writer, with keys in lower case.
        :raises PySparkException: the table cannot be read.
        """

    def rollback(self, version: int) -> str:
        """The SQL statement that brings the table back to a version, or what else has to be done."""

    def redo(self, version: int) -> str:
        """As `rollback`, for a version that was taken back."""
