"""Jobs of several queries.

In a drain they end upstream first, each after it has processed all that its upstream left it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from dev.localdriver import LocalDriver
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import TaskState
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import CheckpointSettings
from streamjob.protocol.messages.driver_status import DriverStatus

from .apps.stages import clean, totals
from .apps.windows import SCHEMA, windows
from .feeds import eventually
from .job import Feed

APP = Path(__file__).parent / "apps" / "stages.py"
DECLARED = Path(__file__).parent / "apps" / "declared.py"
SLOW = Path(__file__).parent / "apps" / "slow.py"
STAGES = {"clean", "windows", "totals"}


def expected(spark: SparkSession, files: list[str] | str) -> dict[str, list[str]]:
    cleaned = clean(spark.read.schema(SCHEMA).json(files))
    return {"windows": lines(windows(cleaned)), "totals": lines(totals(cleaned))}


def output(spark: SparkSession, home: Path) -> dict[str, list[str]]:
    return {name: lines(spark.read.json(str(home / name))) for name in ("windows", "totals")}


def lines(frame: DataFrame) -> list[str]:
    columns = [c for c in ("k", "n", "s") if c in frame.columns]
    return sorted(
        str(tuple(r)) for r in frame.selectExpr("cast(window.start as timestamp)", *columns).collect()
    )


def all_running(status: DriverStatus) -> bool:
    batches = {g.uid: g.tasks[0].batch for g in status.stages}
    return set(batches) == STAGES and all((b or 0) >= 1 for b in batches.values())


def state(status: DriverStatus, uid: str) -> TaskState | None:
    """None before it has started."""
    return next((g.tasks[0].state for g in status.stages if g.uid == uid), None)


def finished(record: CheckpointRecord) -> set[str]:
    return {s.uid for s in record.stages if s.finished}


def test_row4_a_stop_ends_each_where_it_is_and_a_drain_goes_upstream_first(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.add(6)
    arguments = (str(feed.source), str(tmp_path))
    with LocalDriver(tmp_path, APP, *arguments) as first:
        first.wait_for(all_running)
        stopped = first.finish(Mode.STOP)
    assert {s.uid for s in stopped.stages} == STAGES
    assert not any(o.finished for s in stopped.stages for o in s.operators)
    for stage in stopped.stages:
        assert first.boundary(stage.uid) == (stage.tasks[0].batch, stage.tasks[0].batch)
    assert "stage windows reads what stage clean writes" in first.log.read_text()
    feed.add(3)
    with first.next_epoch(APP, *arguments) as second:
        second.wait_for(all_running)
        drained = second.finish(Mode.DRAIN)
    assert drained.drained
    log = second.log.read_text()
    for reader in ("windows", "totals"):
        assert log.index("stage clean: its state holds nothing") < log.index(
            f"stage {reader}: has processed all of clean"
        )
    read = feed.read_files(tmp_path / "checkpoints" / "clean" / "0")
    assert output(spark, tmp_path) == expected(spark, read)


@pytest.mark.any_spark
def test_row5_row7_row10_row11_stages_finish_for_good_while_another_runs(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """D7 and D12.

    Their final checkpoint is a periodic one, rooted in the stage that runs on; what ended counts as aligned.
    """
    feed.add(4)
    arguments = (str(feed.source), str(tmp_path), "bounded")
    every: dict[str, Any] = {"checkpointing": CheckpointSettings(interval=0.5)}
    ended = {"clean", "windows"}
    with LocalDriver(tmp_path, APP, *arguments, answers=False, **every) as first:
        status = first.wait_for(lambda s: s.completed is not None and finished(s.completed) == ended)
        assert status.completed is not None
        first.record = status.completed
        first.complete(status.completed.checkpoint)
        first.wait_for(lambda s: {u for u in STAGES if state(s, u) is TaskState.CLOSED} == ended)
        first.wait_for(lambda s: state(s, "totals") is TaskState.RUNNING)
        first.kill()
    feed.add(3)
    with first.next_epoch(APP, *arguments, **every, exact=False) as second:
        second.wait_for(lambda s: len(s.stages) == len(STAGES))
        totals = tmp_path / "checkpoints" / "totals" / "0"
        eventually(lambda: len(feed.read_files(totals)) == 7, "all seven files planned")
        drained = second.finish(Mode.DRAIN)
    assert "stage clean has finished" in second.log.read_text()
    assert drained.drained
    for stage, name, files in (("clean", "windows", 4), ("totals", "totals", 7)):
        read = feed.read_files(tmp_path / "checkpoints" / stage / "0")
        assert len(read) == files
        assert output(spark, tmp_path)[name] == expected(spark, read)[name]


@pytest.mark.any_spark
@pytest.mark.slow
def test_row5_a_checkpoint_that_takes_too_long_is_given_up_and_the_job_goes_on(
    feed: Feed, tmp_path: Path
) -> None:
    feed.add(2)
    every: dict[str, Any] = {"checkpointing": CheckpointSettings(interval=0.5, timeout=3.0)}
    with LocalDriver(tmp_path, SLOW, str(feed.source), str(tmp_path), answers=False, **every) as driver:
        status = driver.wait_for(lambda s: s.aborted is not None)
        assert status.aborted is not None
        assert status.aborted.reason == "it was not done after 3 s"
        assert status.completed is None or status.completed.checkpoint < status.aborted.checkpoint
        feed.add(2)
        driver.running(batches=3)
        (tmp_path / "go").touch()
        driver.wait_for(lambda s: s.completed is not None and s.completed.uncommitted)


@pytest.mark.any_spark
@pytest.mark.parametrize("when", [pytest.param("before", marks=pytest.mark.slow), "after"])
@pytest.mark.slow
def test_row4_a_declared_edge_takes_all_that_a_foreach_batch_function_wrote(
    spark: SparkSession, feed: Feed, tmp_path: Path, when: str
) -> None:
    """The reader looks once an hour: what comes out, it has taken when it was told that its upstream has
    ended.
    """
    feed.add(6)
    with LocalDriver(tmp_path, DECLARED, str(feed.source), str(tmp_path), when) as driver:
        driver.wait_for(lambda s: any(g.uid == "loader" and (g.tasks[0].batch or 0) >= 2 for g in s.stages))
        drained = driver.finish(Mode.DRAIN)
    assert drained.drained
    read = feed.read_files(tmp_path / "checkpoints" / "loader" / "0")
    assert len(read) >= 3
    everything = windows(spark.read.schema(SCHEMA).json(read))
    assert lines(spark.read.json(str(tmp_path / "windows"))) == lines(everything)
