"""Which batches of a query are in a Delta table, by its history."""

from __future__ import annotations

import pytest
from pyspark.sql import Row

from streamjob.runtime.spark.tables.delta import in_effect, taken_back
from streamjob.runtime.spark.tables.table import Commit

MINE, OTHER = "6a1f", "77b0"


def history(*operations: tuple[str, dict[str, str | None]]) -> list[Row]:
    """Rows of DESCRIBE HISTORY, newest first, an hour between two versions."""
    rows = [
        Row(
            version=n,
            timestamp=f"2026-01-01 {n:02}:00:00",
            operation=operation,
            operationParameters=parameters,
        )
        for n, (operation, parameters) in enumerate(operations)
    ]
    return rows[::-1]


def batch(number: int, query: str = MINE) -> tuple[str, dict[str, str | None]]:
    return "STREAMING UPDATE", {"queryId": query, "epochId": str(number), "outputMode": "Append"}


def restore(version: int | None = None, at: str | None = None) -> tuple[str, dict[str, str | None]]:
    return "RESTORE", {"version": None if version is None else str(version), "timestamp": at}


Operation = tuple[str, dict[str, str | None]]
NEW: Operation = ("CREATE TABLE", {})
WRITE: Operation = ("WRITE", {"mode": "Append"})


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([], []),
        ([NEW], []),
        ([NEW, batch(0), WRITE, batch(1), batch(0, OTHER)], [Commit(1, 3), Commit(0, 1)]),
        ([NEW, batch(0), batch(1), batch(2), restore(2)], [Commit(1, 2), Commit(0, 1)]),
        ([NEW, batch(0), batch(1), restore(1), batch(7)], [Commit(7, 4), Commit(0, 1)]),
        # A restore of a version that a later restore has taken back.
        ([NEW, batch(0), batch(1), restore(1), batch(5), restore(2)], [Commit(1, 2), Commit(0, 1)]),
        ([NEW, batch(0), batch(1), batch(2), restore(at="2026-01-01 01:30:00")], [Commit(0, 1)]),
        ([NEW, batch(0), ("CREATE OR REPLACE TABLE", {}), batch(1)], [Commit(1, 3)]),
        ([NEW, batch(0), ("REPLACE TABLE AS SELECT", {})], []),
    ],
)
def test_batches_in_effect(
    operations: list[tuple[str, dict[str, str | None]]], expected: list[Commit]
) -> None:
    assert in_effect(history(*operations), MINE) == expected


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([NEW, batch(0), batch(1), batch(2)], []),
        ([NEW, batch(0), batch(1), batch(2), restore(2)], [Commit(2, 3)]),
        ([NEW, batch(0), batch(1), WRITE, batch(1, OTHER), restore(1)], [Commit(1, 2)]),
        ([NEW, batch(0), batch(1), restore(1), batch(1)], []),  # written again
        ([NEW, batch(0), batch(1), restore(1), restore(2)], []),  # the restore was taken back
        ([NEW, batch(0), batch(1), restore(0), batch(2), restore(1)], [Commit(2, 4), Commit(1, 2)]),
        ([NEW, batch(0), ("CREATE OR REPLACE TABLE", {}), batch(1)], []),  # that may be meant
    ],
)
def test_batches_that_were_taken_back(
    operations: list[tuple[str, dict[str, str | None]]], expected: list[Commit]
) -> None:
    assert taken_back(history(*operations), MINE) == expected
