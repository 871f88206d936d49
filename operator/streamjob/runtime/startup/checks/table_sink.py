"""Checks a query's Delta or Iceberg table before the query starts: does it fit what the query begins from?

A table skips each batch whose number it has from the same query id. So a query whose table is ahead would
lose rows. A restored query has a new id. If the rows behind the savepoint are still in the table, they would
come twice.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import NoReturn

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ....jvm.errors import one_line
from ....protocol.errors import StreamJobError
from ....protocol.messages.driver_status import Problem
from ...spark.checkpoint_dir import CheckpointDir
from ...spark.sink_log import SinkAhead
from ...spark.stream_writer import Written
from ...spark.tables.find import MissingTable
from ...spark.tables.table import Commit, Table

log = logging.getLogger("streamjob")


class SinkGone(StreamJobError):
    """The table that holds the output so far no longer exists. Spark would make an empty one."""

    reason = "SinkGone"


@dataclass(frozen=True)
class Origin:
    """What a query begins from.

    :param directory: the checkpoint directory; for reading only.
    :param batch: of a savepoint, the last batch in it. None: the query continues in the directory, or in a
        copy of it with the same query id.
    """

    directory: CheckpointDir
    batch: int | None = None


def refuse_unfit_table(name: str, table: Table, written: Written, origin: Origin) -> list[Problem]:
    """Check the table against what the query begins from.

    Costs some reads of the table's metadata, and for a savepoint its history.

    :param name: the query's.
    :returns: warnings; the query starts all the same.
    :raises SinkAhead: the table has batches that the query would plan again.
    """
    query_id, planned = origin.directory.query_id(), origin.directory.latest_offset()
    if query_id is None or planned is None:
        return []
    try:
        if origin.batch is None:
            _refuse_skipped(name, table, query_id, planned)
        elif (written.mode or "append").lower() != "complete":  # each batch replaces all rows
            _refuse_twice(name, table, query_id, origin)
    except (PySparkException, Py4JError) as e:
        text = f"whether {table.name} has later batches of query {name!r} cannot be found out: {one_line(e)}"
        log.warning("%s", text)
        return [Problem("SinkNotChecked", text, "Nothing has to be done if nobody else has run this query")]
    return []


def refuse_gone_table(name: str, table: MissingTable, batch: int) -> NoReturn:
    """Refuse a query that continues with a table that it had written to and that does not exist.

    :param batch: the last one that it had written.
    :raises SinkGone: always.
    """
    raise SinkGone(
        f"query {name!r} has written up to batch {batch} to the table {table.name}, which does not exist: "
        "Spark would begin an empty one",
        remedy="Restore the table. If its rows are not needed, create it empty",
    )


def _refuse_skipped(name: str, table: Table, query_id: str, planned: int) -> None:
    last = table.skipped_up_to(query_id)
    if last is None or last <= planned:
        return
    raise SinkAhead(
        f"{table.name} has the batches up to {last} of query {name!r}, whose checkpoint directory ends with "
        f"batch {planned}: the table would skip the batches up to {last}, and their rows would be lost",
        remedy="Somebody else ran this query, or its directory was set back. Use the newest directory, or "
        f"make a new StreamJob with spec.restoreFrom.savepoint{_after(table, query_id, planned)}",
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
