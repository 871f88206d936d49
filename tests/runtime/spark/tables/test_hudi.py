"""Which batches of a writer a Hudi table has, by the metadata of its commits."""

from __future__ import annotations

import json

import pytest

from streamjob.runtime.spark.tables.hudi import of_writer
from streamjob.runtime.spark.tables.table import Commit, TakenBack, taken_back


def test_commits_of_a_writer_are_the_newest_first_whatever_their_order() -> None:
    checkpoints = [
        ("20261126031500002", json.dumps({"mine": "4"})),
        ("20261126031500003", json.dumps({"other": "9"})),
        ("20261126031500001", json.dumps({"mine": "3", "other": "8"})),
    ]
    assert of_writer(checkpoints, "mine") == [Commit(4, 20261126031500002), Commit(3, 20261126031500001)]
    assert of_writer(checkpoints, "nobody") == []


@pytest.mark.parametrize(
    ("there", "done", "expected"),
    [
        (1, 3, TakenBack(2, 3, "to 30")),
        (2, 3, TakenBack(3, 3, "to 30")),
        (-1, 2, TakenBack(1, 2, "to 20")),
        (3, 9, None),
    ],
)
def test_only_batches_between_what_is_there_and_what_is_done_count(
    there: int, done: int, expected: TakenBack | None
) -> None:
    lost = [Commit(3, 30), Commit(2, 20), Commit(1, 10)]
    assert taken_back(lost, there, done, lambda version: f"to {version}") == expected
