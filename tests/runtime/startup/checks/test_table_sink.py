"""Tables that no history speaks of: with older files, created again, of a format that nobody can read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamjob.runtime.spark.sink_log import SinkBehind
from streamjob.runtime.spark.stream_writer import WriterOptions
from streamjob.runtime.spark.tables.find import OtherTable
from streamjob.runtime.startup.checks.table_sink import Origin, refuse_behind, refuse_unfit_table

TABLE = OtherTable("`lake`.`orders`", "hudi")


def begins_behind(batch: int | None) -> Origin:
    directory: Any = SimpleNamespace(latest_offset=lambda: batch)
    return Origin(directory)


def test_a_query_that_goes_on_is_warned() -> None:
    rows: Any = None
    (warning,) = refuse_unfit_table("orders", TABLE, WriterOptions(), rows, begins_behind(3))
    assert warning.reason == "SinkNotChecked"
    assert "`lake`.`orders` (hudi)" in warning.message


def test_a_query_that_begins_is_not() -> None:
    rows: Any = None
    assert refuse_unfit_table("orders", TABLE, WriterOptions(), rows, begins_behind(None)) == []


@pytest.mark.parametrize("there", [7, 8])  # 8: it is in the table, and not in Spark's commit log
def test_a_table_that_has_the_last_batch(there: int) -> None:
    assert refuse_behind("counts", "lake.t", there, 7) == []


def test_a_table_with_older_files() -> None:
    with pytest.raises(SinkBehind, match=r"ends with batch 4 .* up to batch 7") as refused:
        refuse_behind("counts", "lake.t", 4, 7)
    assert "of batch 4 or before" in refused.value.remedy


def test_a_table_that_was_created_again_is_a_warning() -> None:
    (warning,) = refuse_behind("counts", "lake.t", None, 7)
    assert warning.reason == "SinkReplaced"
    assert "up to batch 7" in warning.message
