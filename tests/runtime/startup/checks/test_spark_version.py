from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamjob.runtime.query import endpoints
from streamjob.runtime.spark.checkpoint_dir import CheckpointDir
from streamjob.runtime.spark.engine import Engine
from streamjob.runtime.spark.versions.table import BY_VERSION
from streamjob.runtime.startup.checks.spark_version import CheckpointOfNewerSpark, refuse_newer
from tests.runtime.localfiles import LocalFiles


class Checkpoint:
    """A checkpoint directory that one Spark has written, and another one looks at."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: Any = LocalFiles()

    def written(self, spark: str | None, offsets: int = 1, commits: int = 1) -> Checkpoint:
        for log, version in (("offsets", offsets), ("commits", commits)):
            (self.folder / log).mkdir(parents=True)
            (self.folder / log / "0").write_text("v1\n{}")
            (self.folder / log / "1").write_text(f"v{version}\n{{}}")
        if spark is not None:
            ends = endpoints.ends([], None, "write", str, spark)
            endpoints.note(CheckpointDir(self.files, f"file:{self.folder}"), ends)
        return self

    def read_by(self, spark: str) -> list[str]:
        """:returns: the warnings."""
        self.files.spark = SimpleNamespace(version=spark)
        internals: Any = SimpleNamespace(traits=BY_VERSION[".".join(spark.split(".")[:2])])
        found = refuse_newer(
            CheckpointDir(self.files, f"file:{self.folder}"), Engine(self.files, internals, None)
        )
        return [problem.message for problem in found]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "orders")


def test_a_directory_that_does_not_exist_is_read_by_all(checkpoint: Checkpoint) -> None:
    assert checkpoint.read_by("3.5.9") == []


@pytest.mark.parametrize("spark", ["4.1.4", "4.3.0"])
def test_what_an_older_spark_or_the_same_has_written_is_read_without_a_word(
    checkpoint: Checkpoint, spark: str
) -> None:
    assert checkpoint.written("4.1.2").read_by(spark) == []


def test_a_newer_spark_is_named_in_a_warning(checkpoint: Checkpoint) -> None:
    (warning,) = checkpoint.written("4.3.0").read_by("4.1.4")
    assert warning.startswith("Spark 4.3.0 wrote ")
    assert "this is Spark 4.1.4" in warning


@pytest.mark.parametrize(
    ("log", "offsets", "commits", "spark"),
    [("offsets", 2, 1, "4.1.4"), ("commits", 1, 3, "4.1.4"), ("commits", 1, 2, "3.5.9")],
)
def test_a_log_that_this_spark_cannot_read_is_refused_with_both_versions(
    checkpoint: Checkpoint, log: str, offsets: int, commits: int, spark: str
) -> None:
    with pytest.raises(CheckpointOfNewerSpark) as e:
        checkpoint.written("4.3.0", offsets, commits).read_by(spark)
    assert f"Spark 4.3.0 wrote file:{checkpoint.folder}: its log `{log}`" in e.value.message
    assert f"Spark {spark} reads format" in e.value.message
    assert "Spark 4.3 again" in e.value.remedy


def test_a_directory_without_a_note_is_refused_by_its_logs_alone(checkpoint: Checkpoint) -> None:
    checkpoint.written(None, offsets=2)
    with pytest.raises(CheckpointOfNewerSpark, match="a newer Spark wrote"):
        checkpoint.read_by("4.0.5")
