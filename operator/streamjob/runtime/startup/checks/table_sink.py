"""Checks a table in Delta or Iceberg before a query starts: does it fit what the query begins from?

A table skips each batch whose number it has from the same writer. So a query whose table is ahead would lose
rows. The writer is the query's id, and a restored query has a new one. If the rows behind the savepoint are
still in the table, they would come twice. And if somebody has brought the table back to an older version, the
query would not write again what it has committed since.

What others append, change or delete is their business, as under plain Spark.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NoReturn

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from ....jvm.errors import one_line
from ....protocol.errors import StreamJobError
from ....protocol.messages.driver_status import Problem
from ...spark.checkpoint_dir import CheckpointDir
from ...spark.sink_log import SinkAhead, SinkBehind, SinkGone
from ...spark.stream_writer import WriterOptions
from ...spark.tables.find import MissingTable, OtherTable
from ...spark.tables.table import NEWEST, Commit, Table

log = logging.getLogger("streamjob")


class SinkSchema(StreamJobError):
    """The table does not take the query's rows. Spark would say so when it has planned a batch."""

    reason = "SinkSchema"


@dataclass(frozen=True)
class Origin:
    """What a query begins from.

    :param directory: the checkpoint directory; for reading only. It may be empty.
    :param batch: of a savepoint, the last batch in it. None: the query continues in the directory, or in a
        copy of it with the same query id.
    """

    directory: CheckpointDir
    batch: int | None = None

    @property
    def last(self) -> int | None:
        """The last batch that the query does not plan again, None if it begins with its first one."""
        return self.directory.latest_offset() if self.batch is None else self.batch


def refuse_unfit_table(
    name: str,
    table: Table | OtherTable,
    written: WriterOptions,
    rows: DataFrame,
    origin: Origin,
    *,
    wrote_here: bool | None = None,
) -> list[Problem]:
    """Check the table against what the query writes and what it begins from.

    Costs some reads of the table's metadata, and for a savepoint its history.

    :param name: the query's.
    :param rows: what it writes.
    :param wrote_here: whether its earlier batches are in this table, None if that is not known.
    :returns: warnings; the query starts all the same.
    :raises SinkSchema: the table does not take the rows.
    :raises SinkAhead: the table has batches that the query would plan again.
    :raises SinkBehind: batches were taken out of the table that the query would not write again.
    """
    if isinstance(table, OtherTable):
        if origin.last is None:
            return []
        return [_not_checked(f"whether {table.name} ({table.format}) fits query {name!r} is not known")]
    query_id = origin.directory.query_id()
    replaces = (written.mode or "append").lower() == "complete"  # each batch replaces all rows
    try:
        _refuse_schema(name, table, rows, written)
        _refuse_skipped(name, table, query_id, origin)
        if query_id is None or origin.last is None or replaces:
            return []
        if origin.batch is None:
            committed = origin.directory.latest_commit()
            _refuse_taken_back(name, table, query_id, committed)
            if wrote_here and committed is not None:
                return refuse_behind(name, table.name, table.skipped_up_to(query_id), committed)
        else:
            _refuse_twice(name, table, query_id, origin)
    except (PySparkException, Py4JError) as e:
        text = (
            f"whether {table.name} fits query {name!r} and its last batch cannot be found out: {one_line(e)}"
        )
        return [_not_checked(text)]
    return []


def _not_checked(text: str) -> Problem:
    log.warning("%s", text)
    return Problem("SinkNotChecked", text, "Nothing has to be done if nobody else has run this query")


def refuse_behind(name: str, table: str, there: int | None, committed: int) -> list[Problem]:
    """Check that the table has the query's last batch, where nothing in its history says that it was taken
    back: somebody has put older files of the table in the place of the newer ones. In Delta and Iceberg each
    batch is a commit, also one without rows.

    :param there: the last batch of the query that the table has, None if it has none.
    :returns: a warning about a table that has none.
    :raises SinkBehind: it has earlier ones only.
    """
    if there is not None and there < committed:
        raise SinkBehind(
            f"{table} ends with batch {there} of query {name!r}, which has committed up to batch {committed} "
            "and would not write the batches in between again: the table's files are older",
            remedy="Put the table's newer files back. If they are lost and the rows are needed, <new-job> of "
            f"batch {there} or before; if the rows are not needed, with the latest savepoint",
        )
    if there is not None:
        return []
    text = (
        f"{table} has no batch of query {name!r}, which has committed up to batch {committed}: the table was "
        "created again, or its history has expired"
    )
    log.warning("%s", text)
    return [Problem("SinkReplaced", text, "Nothing has to be done if that is meant")]


def refuse_gone_table(name: str, table: MissingTable, batch: int, folder: str | None) -> NoReturn:
    """Refuse a query that continues with a table that it had written to and that does not exist.

    :param batch: the last one that it had written.
    :param folder: of Spark's file sink, which would miss its log there. None for a table that has its own.
    :raises SinkGone: always.
    """
    otherwise = "create it empty" if folder is None else "let the query write to a new table"
    raise SinkGone(
        f"query {name!r} has written up to batch {batch} to the table {table.name}, which does not exist: "
        "Spark would begin an empty one",
        remedy=f"Restore the table. If its rows are not needed, {otherwise}",
    )


def _refuse_skipped(name: str, table: Table, query_id: str | None, origin: Origin) -> None:
    if query_id is None or origin.batch is not None:
        return  # it gets an id that the table does not know
    last = table.skipped_up_to(query_id)
    there = -1 if origin.last is None else origin.last
    if last is None or last <= there:
        return
    raise SinkAhead(
        f"{table.name} has the batches up to {last} of query {name!r}, and its checkpoint directory ends "
        f"with batch {there}: the table would skip the batches up to {last}, and their rows would be lost",
        remedy="Somebody else ran this query, or its directory was set back. Use the newest directory, or "
        f"<new-job>{_after(table, query_id, there)}",
    )


def _refuse_schema(name: str, table: Table, rows: DataFrame, written: WriterOptions) -> None:
    if (why := table.unfit(rows, written.options)) is None:
        return
    raise SinkSchema(
        f"{table.name} does not take the rows of query {name!r}: {why}",
        remedy="Change the query's columns or the table's (ALTER TABLE), or set the format's option that "
        "merges schemas",
    )


def _refuse_taken_back(name: str, table: Table, query_id: str, committed: int | None) -> None:
    last = next(iter(table.commits(query_id, NEWEST)), None)
    there = last.batch if last is not None else -1
    done = max((b for b in (committed, table.skipped_up_to(query_id)) if b is not None), default=-1)
    if there >= done:
        return
    if (lost := table.taken_back(query_id, there, done)) is None:
        return
    raise SinkBehind(
        f"{table.name} was brought back to an older version: it no longer has the batches "
        f"{lost.first} to {lost.last} of query {name!r}, which would not write them again",
        remedy=f"If their rows are needed: {lost.redo}, or <new-job> of batch {there} or before. If they "
        "are not, do that with the latest savepoint",
    )


def _refuse_twice(name: str, table: Table, query_id: str, origin: Origin) -> None:
    assert origin.batch is not None
    newest = next(iter(table.commits(query_id)), None)
    if newest is None or newest.batch <= origin.batch:
        return
    raise SinkAhead(
        f"{table.name} has the batches up to {newest.batch} of query {name!r}, and the savepoint ends with "
        f"batch {origin.batch}: the rows of the later ones would come twice",
        remedy=f"Let the query write to another table, or begin{_after(table, query_id, origin.batch)}",
    )


def _after(table: Table, query_id: str, batch: int) -> str:
    """The end of a remedy: after the table was brought back to a batch."""
    before: list[Commit] = [c for c in table.commits(query_id) if c.batch <= batch]
    if not before:
        return " after the table was brought back to its version of that time"
    return f" after {table.rollback(before[0].version)}"
