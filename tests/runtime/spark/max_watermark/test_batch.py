"""What a drain plans, in an offset log written by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streamjob.runtime.spark.checkpoint_dir import MAX_WATERMARK_MS, MAX_WATERMARKS, CheckpointDir
from streamjob.runtime.spark.max_watermark.batch import (
    DrainResult,
    kept_for_the_clock,
    plan,
    write_max_watermark,
)
from tests.runtime.localfiles import LocalFiles

POSITION = '{"logOffset":3}'


class Writes:
    """Of Spark's private members, the one that writes an entry."""

    def create_atomic(self, uri: str, data: bytes) -> None:
        LocalFiles().write_new(uri, data)


WRITES: Any = Writes()


@pytest.fixture
def directory(tmp_path: Path) -> CheckpointDir:
    """Of a stateful query that has committed batch 0, an hour ago."""
    entry = {"batchWatermarkMs": 60_000, "batchTimestampMs": 120_000, "conf": {"a": "b"}}
    for path, text in {
        "offsets/0": f"v1\n{json.dumps(entry)}\n{POSITION}",
        "commits/0": 'v1\n{"nextBatchWatermarkMs":60000}',
        "state/0/_metadata/metadata": "v1\n{}",
    }.items():
        place = tmp_path / path
        place.parent.mkdir(parents=True)
        place.write_text(text)
    files: Any = LocalFiles()
    return CheckpointDir(files, f"file:{tmp_path}")


def test_r7_a_drain_reads_nothing_and_its_processing_time_is_that_of_the_batch_before(
    directory: CheckpointDir,
) -> None:
    batch = write_max_watermark(directory, WRITES)
    assert batch == 1
    entry = directory.entry(batch)
    assert (entry.format, entry.offsets) == (1, {"0": POSITION})
    assert entry.metadata == {
        "batchWatermarkMs": MAX_WATERMARK_MS,
        "batchTimestampMs": 120_000,
        "conf": {"a": "b"},
    }
    again = plan(directory, batch, MAX_WATERMARKS[1], WRITES)
    assert directory.entry(again).metadata["batchTimestampMs"] == 120_000


@pytest.mark.parametrize(
    ("processing_time", "left", "told"),
    [(True, 3, True), (True, None, True), (True, 0, False), (False, 3, False)],
)
def test_r7_what_stays_for_the_clock_is_told(processing_time: bool, left: int | None, told: bool) -> None:
    result = DrainResult(7, 1, None, 0.1, left, timers_left=False, processing_time=processing_time)
    problem = kept_for_the_clock("main", result)
    assert (problem is not None) == told
    if problem is not None:
        assert problem.message.startswith("stage main: something is left in its state")
        assert ("(3 rows and timers)" in problem.message) == (left == 3)
