"""A query without windows is marked as drained when what reads from it is flushed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.max_watermark.undrain import reopen

from ..localfiles import LocalFiles

FILES: Any = LocalFiles()


def plan(directory: CheckpointDir, batch: int) -> None:
    entry = b'v1\n{"batchWatermarkMs":0,"conf":{}}\n{}'
    FILES.write_new(f"{directory.uri}/offsets/{batch}", entry)


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_marked_query_is_drained_until_it_has_another_batch(tmp_path: Path, batches: int) -> None:
    directory = CheckpointDir(FILES, f"file:{tmp_path}")
    for batch in range(batches):
        plan(directory, batch)
    assert not directory.is_drained()
    for _ in range(2):
        directory.mark_drained()
        assert directory.is_drained()
    assert directory.drain_batches() == 0, "no batch of it has a max watermark"
    plan(directory, batches)
    assert not directory.is_drained(), "plain PySpark has run it since"


def test_a_copy_of_a_marked_query_reads_on_if_that_is_allowed(tmp_path: Path) -> None:
    directory = CheckpointDir(FILES, f"file:{tmp_path}")
    plan(directory, 0)
    directory.mark_drained()
    reopen(directory)
    assert not directory.is_drained()
