"""A query whose positions are where only a setting of the session says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.startup.checks.spark_location import refuse_ignored
from streamjob.runtime.startup.restore_point import NothingToAdopt

from ...localfiles import LocalFiles


class Files(LocalFiles):
    def qualify(self, uri: str) -> str:
        return uri


FILES: Any = Files()


def has_run(root: Path, name: str) -> None:
    (root / name / "offsets").mkdir(parents=True)
    (root / name / "offsets" / "0").write_text("v1\n{}\n{}")


def test_a_query_that_has_run_under_plain_spark_does_not_begin_from_nothing(tmp_path: Path) -> None:
    has_run(tmp_path / "chk", "orders")
    mine = CheckpointDir(FILES, f"file:{tmp_path}/job/orders/0")
    with pytest.raises(NothingToAdopt, match="chk/orders") as refused:
        refuse_ignored(FILES, "orders", f"file:{tmp_path}/chk/", mine)
    assert "checkpointLocation" in refused.value.remedy


@pytest.mark.parametrize("name", ["returns", None])
def test_another_query_begins_from_nothing(tmp_path: Path, name: str | None) -> None:
    has_run(tmp_path / "chk", "orders")
    (tmp_path / "chk" / "returns").mkdir()
    mine = CheckpointDir(FILES, f"file:{tmp_path}/job/returns/0")
    refuse_ignored(FILES, name, f"file:{tmp_path}/chk", mine)
    refuse_ignored(FILES, "orders", None, mine)


def test_a_query_in_that_directory_continues(tmp_path: Path) -> None:
    has_run(tmp_path / "chk", "orders")
    refuse_ignored(
        FILES, "orders", f"file:{tmp_path}/chk", CheckpointDir(FILES, f"file:{tmp_path}/chk/orders")
    )
