"""The snapshots of an Iceberg table, as far as a query that reads the table needs them.

A position names a snapshot. The query reads what the snapshots after it append, up to the current one. From
StreamingOffset and SparkMicroBatchStream of org.apache.iceberg.spark.source.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from ..handles import is_iceberg_table

BEGINNING = -1  # StreamingOffset.START_OFFSET: the table had no snapshot yet
# How Iceberg refuses availableNow when the snapshot at which the query once began has expired, also if that
# of its position has not (apache/iceberg#18000).
NO_SNAPSHOT = "Cannot load current offset at snapshot"


@dataclass(frozen=True)
class History:
    """What a table has of some snapshots.

    :param empty: the table has no current snapshot.
    :param kept: the snapshots that the table has.
    :param ancestors: of these, the current one and those before it without a gap.
    :param is_cut: the oldest snapshots before the current one have expired.
    """

    empty: bool
    kept: frozenset[int]
    ancestors: frozenset[int]
    is_cut: bool


def snapshot_of(position: str | None) -> int | None:
    """The snapshot that a position names, None if the text is no position of Iceberg's."""
    try:
        plain = json.loads(position or "")
        return int(plain["snapshot_id"]) if "scan_all_files" in plain else None
    except (ValueError, KeyError, TypeError):
        return None


def is_iceberg(relation: Any) -> bool:
    """Whether a source reads an Iceberg table, by its path or by its name in a catalog.

    :param relation: the leaf of the plan.
    """
    if str(relation.getClass().getSimpleName()) != "StreamingRelationV2":
        return False
    return is_iceberg_table(relation.table())


def location_of(relation: Any) -> str | None:
    """Where the Iceberg table is that a source reads; None for other sources.

    :param relation: the leaf of the plan.
    """
    return str(relation.table().table().location()) if is_iceberg(relation) else None


def history_of(relation: Any, wanted: Collection[int], jvm: Any) -> tuple[str, History]:
    """The name of the table that a source reads, and what it has of some snapshots.

    Costs one look at the table's newest metadata, which the query takes as well.

    :param relation: the leaf of the plan.
    """
    table = relation.table().table()
    table.refresh()  # a catalog may have a copy of it that is not the newest
    util = jvm.org.apache.iceberg.util.SnapshotUtil
    current = table.currentSnapshot()
    kept = frozenset(i for i in wanted if table.snapshot(i) is not None)
    return str(table.name()), History(
        empty=current is None,
        kept=kept,
        ancestors=frozenset(i for i in kept if current is not None and util.isAncestorOf(table, i)),
        is_cut=current is not None and util.oldestAncestor(table).parentId() is not None,
    )
