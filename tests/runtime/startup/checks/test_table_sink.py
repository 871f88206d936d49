"""A table of a format that nobody here can read is not checked, and a query that goes on says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from streamjob.runtime.spark.stream_writer import Written
from streamjob.runtime.spark.tables.find import OtherTable
from streamjob.runtime.startup.checks.table_sink import Origin, refuse_unfit_table

TABLE = OtherTable("`lake`.`orders`", "hudi")


def begins_behind(batch: int | None) -> Origin:
    directory: Any = SimpleNamespace(latest_offset=lambda: batch)
    return Origin(directory)


def test_a_query_that_goes_on_is_warned() -> None:
    rows: Any = None
    (warning,) = refuse_unfit_table("orders", TABLE, Written(), rows, begins_behind(3))
    assert warning.reason == "SinkNotChecked"
    assert "`lake`.`orders` (hudi)" in warning.message


def test_a_query_that_begins_is_not() -> None:
    rows: Any = None
    assert refuse_unfit_table("orders", TABLE, Written(), rows, begins_behind(None)) == []
