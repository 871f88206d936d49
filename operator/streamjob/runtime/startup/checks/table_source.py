"""Is what a query reads next of a Delta or Iceberg table still in the table, and is it that table? Pure.

What the formats do by themselves (`tests/spark/test_tables_gone.py`):

- Delta compares the table's id and finds commits that its log has lost, unless `failOnDataLoss` is false. It
  does not notice files that VACUUM has removed: the batch is planned, and then fails at each attempt, or,
  with Spark's `ignoreMissingFiles`, is committed without their rows.
- Iceberg notices a snapshot that has expired, and runs into an internal error if it is no ancestor of the
  current one. If the table has no snapshot because it was created again or replaced, the position becomes
  that of an empty table: what the query had not read is lost, and what comes is read from its first snapshot.
  Of a position in an empty table, it skips the snapshots that have expired since.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...spark.sources.delta_log import DeltaPosition
from ...spark.sources.iceberg_history import BEGINNING, History

ANEW = (
    "give the query another queryName and <allow-lost-state>: it then begins without state, where the "
    "options of its sources say"
)
NEWER = "Restore a newer savepoint"
OLD_TABLE = f"Bring the old table back. If the rest of it is not needed, {ANEW}"


@dataclass(frozen=True)
class Gone:
    """What a query cannot read any more.

    :param what: as a clause.
    :param how: what its user can do.
    """

    what: str
    how: str


def other_delta_table(position: DeltaPosition, table: str, newest: int) -> Gone | None:
    """Compare a position with the table that is there.

    :param table: its id.
    :param newest: its newest version.
    """
    if position.table != table:
        return Gone(
            f"it is another table: its id is {table} and was {position.table}, so somebody has created it "
            "again or replaced it",
            OLD_TABLE,
        )
    read = position.version if position.index >= 0 or position.initial else position.version - 1
    if read <= newest:
        return None
    return Gone(
        f"the table ends with version {newest}, and the query has read version {read}: its files are older",
        "Put the table's newer files back, or restore a savepoint from before version "
        f"{newest + 1}. If neither is possible, {ANEW}",
    )


def delta_log_lost(position: DeltaPosition, first_left: int | None) -> Gone | None:
    """Whether the log has lost commits that the query has not read.

    Without failOnDataLoss, Delta itself may still refuse: it reads the commits of the last batch again.

    :param first_left: as `DeltaLog.first_left`, from the version of the position on.
    """
    if first_left is None or first_left <= position.version:
        return None
    return Gone(
        f"the log of the table begins with version {first_left}: the commits from version {position.version} "
        "on, which the query has not read, were cleaned up (delta.logRetentionDuration)",
        f"{NEWER}, or set the source's option failOnDataLoss to false: it then continues with what is left. "
        f"If Delta refuses that, {ANEW}",
    )


def iceberg_lost(
    start: int | None, end: int | None, table: History, *, begins_later: bool = False
) -> Gone | None:
    """Whether the table has the snapshots from a query's position on.

    :param start: the snapshot up to which the query has read; None before the first batch.
    :param end: that of the batch that is planned and not committed; None if there is no such batch.
    :param begins_later: the source's options say where to begin, so it does not need the first snapshots.
    """
    for position in (start, end):
        if position is None or position == BEGINNING or position in table.ancestors:
            continue
        return _apart(f"snapshot {position}, up to which the query reads", position, table)
    if start == BEGINNING and table.is_cut and not begins_later:
        return Gone(
            "the query has read nothing of it yet, and the first snapshots have expired: Iceberg would skip "
            "their rows",
            f"Read what the table has now in a batch job. For what comes after that, {ANEW}",
        )
    return None


def _apart(snapshot: str, position: int, table: History) -> Gone:
    """Why there is no way from a position to the current snapshot."""
    if table.empty:
        return Gone(
            f"it is empty, without {snapshot}: somebody has created it again or replaced it", OLD_TABLE
        )
    if position not in table.kept:
        return Gone(
            f"it does not have {snapshot}: that has expired, or somebody has created the table again",
            f"{NEWER}. If there is none, {ANEW}",
        )
    if table.is_cut:
        return Gone(
            f"what has come after {snapshot}, has expired",
            f"{NEWER}. If there is none, {ANEW}",
        )
    return Gone(
        f"{snapshot}, is not in the history of the current one: somebody has rolled the table back or "
        "replaced it",
        "Bring the table back to that snapshot (set_current_snapshot), or restore a savepoint from before "
        f"that. If neither is possible, {ANEW}",
    )
