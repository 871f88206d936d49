"""Whether a table has what a query reads next of it, by what the table is."""

from __future__ import annotations

import pytest

from streamjob.runtime.spark.sources.delta_log import DeltaPosition
from streamjob.runtime.spark.sources.iceberg_history import BEGINNING, History
from streamjob.runtime.startup.checks.table_source import (
    delta_log_lost,
    iceberg_lost,
    other_delta_table,
)


@pytest.mark.parametrize(
    ("position", "newest", "why"),
    [
        (DeltaPosition("a", 5), 9, None),
        (DeltaPosition("a", 5), 4, None),  # all is read
        (DeltaPosition("a", 5), 3, "ends with version 3, and the query has read version 4"),
        (DeltaPosition("a", 5, index=0), 4, "ends with version 4, and the query has read version 5"),
        (DeltaPosition("a", 5, index=0), 5, None),
        (DeltaPosition("a", 5, initial=True), 5, None),
        (DeltaPosition("a", 5, initial=True), 4, "has read version 5"),
        (DeltaPosition("b", 5), 9, "its id is a and was b"),
    ],
)
def test_a_delta_table_is_the_one_that_was_read(
    position: DeltaPosition, newest: int, why: str | None
) -> None:
    gone = other_delta_table(position, "a", newest)
    assert (gone is None) == (why is None)
    if gone is not None and why is not None:
        assert why in gone.what
        assert "another queryName" in gone.how


def test_the_log_of_a_delta_table() -> None:
    at = DeltaPosition("a", 5)
    assert delta_log_lost(at, 5) is None
    assert delta_log_lost(at, None) is None, "not known"
    gone = delta_log_lost(at, 7)
    assert gone is not None
    assert "begins with version 7: the commits from version 5 on" in gone.what
    assert "failOnDataLoss" in gone.how


def history(*ancestors: int, kept: tuple[int, ...] = (), cut: bool = False, empty: bool = False) -> History:
    return History(empty, frozenset({*ancestors, *kept}), frozenset(ancestors), cut)


@pytest.mark.parametrize(
    ("start", "end", "table", "why"),
    [
        (7, None, history(7), None),
        (7, None, history(7, cut=True), None),
        (7, 8, history(7, 8), None),
        (7, 8, history(7, kept=(8,)), "snapshot 8, up to which the query reads, is not in the history"),
        (None, 8, history(8), None),
        (None, 8, history(kept=(8,)), "snapshot 8"),
        (7, None, history(kept=(7,)), "rolled the table back or replaced it"),
        (7, None, history(kept=(7,), cut=True), "after snapshot 7, up to which the query reads, has expired"),
        (7, None, history(), "that has expired, or somebody has created the table again"),
        (7, None, history(empty=True), "it is empty"),
        (7, None, history(kept=(7,), empty=True), "it is empty"),
        (BEGINNING, None, history(empty=True), None),
        (BEGINNING, None, history(), None),
        (BEGINNING, None, history(cut=True), "the first snapshots have expired"),
        (BEGINNING, 8, history(8), None),
        (7, BEGINNING, history(7), None),
    ],
)
def test_the_snapshots_of_an_iceberg_table(
    start: int | None, end: int | None, table: History, why: str | None
) -> None:
    gone = iceberg_lost(start, end, table)
    assert (gone is None) == (why is None)
    if gone is not None and why is not None:
        assert why in gone.what
        assert "another queryName" in gone.how


def test_a_query_that_begins_where_its_options_say_does_not_need_the_first_snapshots() -> None:
    assert iceberg_lost(BEGINNING, None, history(cut=True), begins_later=True) is None
