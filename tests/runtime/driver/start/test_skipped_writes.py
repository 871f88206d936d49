"""Writes of foreachBatch functions whose rows would be lost because of another query."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamjob.runtime.driver.start.skipped_writes import SkippedWrites
from streamjob.runtime.query.places.claim import SinkShared
from streamjob.runtime.spark.handles import Table
from streamjob.runtime.spark.target import Target
from tests.runtime.localfiles import LocalFiles


class Function:
    batch = 3
    must_fail: Exception | None = None
    failure: Exception | None = None


def run(task: str) -> Any:
    """A run in its batch 3."""
    return SimpleNamespace(
        task=task,
        each_batch=Function(),
        files=LocalFiles(),
        directory=SimpleNamespace(latest_offset=lambda: 3),
    )


def write(stage: Any, writers: dict[tuple[str, str], str], place: str, app: str, version: int = 3) -> None:
    options = {"txnappid": app, "txnversion": str(version)}
    if place.startswith("/"):
        SkippedWrites(stage, writers).refuse_shared(Target("delta", {**options, "path": place}), None)
    else:
        SkippedWrites(stage, writers).refuse_shared(
            Target("delta", options, table=place), Table(f"lake.{place}")
        )


@pytest.mark.parametrize("place", ["/data/t", "db.t"])
def test_one_id_of_two_queries_is_refused(place: str) -> None:
    first, second = run("a"), run("b")
    writers: dict[tuple[str, str], str] = {}
    write(first, writers, place, "app")
    write(first, writers, place, "app", 4)
    with pytest.raises(SinkShared, match="'a' and 'b'"):
        write(second, writers, place, "app")
    function = cast(Function, second.each_batch)
    assert isinstance(function.must_fail, SinkShared), "the batch fails whatever its function makes of that"


def test_a_table_is_one_however_its_folder_is_spelled(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    writers: dict[tuple[str, str], str] = {}
    write(run("a"), writers, f"{tmp_path}/t", "app")
    with pytest.raises(SinkShared):
        write(run("b"), writers, f"{tmp_path}/link/t", "app")


def test_what_two_queries_may_share() -> None:
    writers: dict[tuple[str, str], str] = {}
    write(run("a"), writers, "/data/t", "app-a")
    write(run("b"), writers, "/data/t", "app-b")
    write(run("b"), writers, "/data/u", "app-a")
    write(run("a"), writers, "/data/t", "app-a")  # started again


def test_files_beside_the_log_of_another_query_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    stage = run("a")
    with pytest.raises(SinkShared, match="would not find"):
        SkippedWrites(stage, {}).refuse_shared(Target("json", {"path": f"{tmp_path}/out/"}), None)
    assert isinstance(cast(Function, stage.each_batch).must_fail, SinkShared)


def test_what_is_no_file_beside_such_a_log(tmp_path: Path) -> None:
    (tmp_path / "out" / "_spark_metadata").mkdir(parents=True)
    for target in (
        Target("json", {"path": f"{tmp_path}/other"}),
        Target("json", {"path": f"{tmp_path}/out/day=1"}),  # its readers name it
        Target("delta", {"path": f"{tmp_path}/out"}),
        Target("jdbc"),
    ):
        SkippedWrites(run("a"), {}).refuse_shared(target, None)
