"""A stage of several tasks: they finish one by one, and what the others have left is dealt out to another
number of them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver, manifest
from streamjob.protocol.formats.records import CheckpointRecord, FinishedStatus, OperatorKind
from streamjob.protocol.lifecycle import TaskState
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import CheckpointSettings, Restore
from streamjob.protocol.messages.driver_status import DriverStatus
from streamjob.shards import BadShards, Shard

pytestmark = [pytest.mark.any_spark, pytest.mark.timeout(1500)]
APP = Path(__file__).parent / "apps" / "shards.py"
SLOW = "0.7"  # seconds for a row, of all shards but the first
# A slot for the tasks of each query: with fewer, the slow ones would hold up the first.
SLOTS: dict[str, Any] = {"spark_conf": {"spark.master": "local[4]"}}
EVERY: dict[str, Any] = {"checkpointing": CheckpointSettings(interval=1), **SLOTS}


def add(source: Path, first: int, files: int) -> None:
    """Files of two rows each."""
    source.mkdir(exist_ok=True)
    for n in range(first, first + files):
        rows = [json.dumps({"v": 2 * n}), json.dumps({"v": 2 * n + 1})]
        (source / f"{n:03}, ü.json").write_text("\n".join(rows) + "\n")


def output(spark: SparkSession, *folders: Path) -> list[int]:
    """All rows in the folders of all shards, as their sinks' logs have them."""
    parts = [part for folder in folders for part in folder.iterdir() if (part / "_spark_metadata").exists()]
    return sorted(r.v for part in parts for r in spark.read.schema("v long").json(str(part)).collect())


def states(status: DriverStatus) -> list[TaskState]:
    return [t.state for stage in status.stages for t in stage.tasks]


def left(record: CheckpointRecord) -> dict[int, int]:
    """By the index of the task: how many files it has not read."""
    (stage,) = record.stages
    return {t.index: len(t.state["splits"]) for t in stage.tasks}


def partly_finished(status: DriverStatus) -> bool:
    """And in the second shard of three some files have been read."""
    record = status.completed
    return record is not None and record.stages[0].status is FinishedStatus.PARTIALLY and left(record)[1] < 8


@pytest.mark.slow
def test_row9_what_unfinished_shards_have_left_is_dealt_to_two_to_four_and_to_three(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    add(source, 0, 24)
    with LocalDriver(tmp_path, APP, str(source), str(out), "3", SLOW, answers=False, **EVERY) as first:
        status = first.wait_for(partly_finished)
        assert status.completed is not None
        (stage,) = status.completed.stages
        assert [t.finished for t in stage.tasks] == [True, False, False]
        assert not any(o.finished for o in stage.operators)
        assert [o.kind for o in stage.operators if o.uid == "splits"] == [OperatorKind.LIST]
        assert status.completed.scenario is None
        first.complete(status.completed.checkpoint)
        first.wait_for(lambda s: states(s)[0] is TaskState.CLOSED)
        stopped = first.finish(Mode.STOP)
    remaining = left(stopped)
    assert remaining[0] == 0
    assert 0 < remaining[1] < 8
    assert 0 < remaining[2] < 8
    assert stopped.savepoint is not None
    saved = str(manifest(stopped.savepoint)["files"])
    assert all(f"stages/copy/{n}/commits/" in saved for n in range(3))
    before = output(spark, out)
    add(source, 24, 3)  # the list of files is that of the first start

    fork = tmp_path / "fork"
    restore = Restore(savepoint=stopped.savepoint)
    with LocalDriver(fork, APP, str(source), str(fork / "out"), "4", restore=restore) as other:
        ended = other.finish()
    assert len(ended.stages[0].tasks) == 4
    assert sorted(before + output(spark, fork / "out")) == list(range(48))

    with first.next_epoch(APP, str(source), str(out), "2", SLOW, **SLOTS) as second:
        second.wait_for(lambda s: any((t.batch or 0) > 8 for g in s.stages for t in g.tasks))
        again = second.finish(Mode.STOP)
    assert set(left(again)) == {0, 1}
    assert sum(left(again).values()) < sum(remaining.values())
    with second.next_epoch(APP, str(source), str(out), "3") as third:
        last = third.finish()
    assert last.drained
    assert sum(left(last).values()) == 0
    assert output(spark, out) == list(range(48))


def test_row9_two_tasks_commit_what_three_had_prepared(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies between the index and the commits of its sinks; the next one has
    another parallelism.
    """
    monkeypatch.setenv("SINK", "files")
    source, out = tmp_path / "in", tmp_path / "out"
    add(source, 0, 24)  # the two slow shards have files left when the driver dies
    with LocalDriver(tmp_path, APP, str(source), str(out), "3", SLOW, answers=False, **SLOTS) as first:
        first.wait_for(lambda s: len(states(s)) == 3 and all((t.batch or 0) >= 1 for t in s.stages[0].tasks))
        first.terminate(Mode.STOP)
        status = first.wait_for(lambda s: s.completed is not None and s.completed.scenario is not None)
        first.record = status.completed
        first.kill()
    assert first.record is not None
    assert first.record.uncommitted
    assert output(spark, out) == [], "nobody sees what no driver has committed"
    with first.next_epoch(APP, str(source), str(out), "2") as second:
        assert second.finish().drained
    assert output(spark, out) == list(range(48))


@pytest.mark.slow
def test_row9_shards_resume_in_place_and_a_finished_one_is_not_started(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also after a crash, and when the folder has other files by then. The drain leaves what is not read."""
    source, out = tmp_path / "in", tmp_path / "out"
    add(source, 0, 24)
    arguments = (str(source), str(out), "3", SLOW)
    with LocalDriver(tmp_path, APP, *arguments, answers=False, **SLOTS) as first:
        first.wait_for(lambda s: len(states(s)) == 3 and all((t.batch or 0) >= 1 for t in s.stages[0].tasks))
        first.kill()
    for n in range(3):
        (source / f"+{n}.json").write_text('{"v": -1}\n')  # dealt anew, all shares would be others
    with first.next_epoch(APP, *arguments, **EVERY, exact=False) as second:
        status = second.wait_for(partly_finished)
        assert status.completed is not None
        second.record = status.completed
        second.complete(status.completed.checkpoint)
        second.kill()
    with second.next_epoch(APP, *arguments, exact=False, **SLOTS) as third:
        third.wait_for(lambda s: len(states(s)) == 3)
        assert states(third.status())[0] is TaskState.CLOSED
        assert "stage copy/0 has finished" in third.log.read_text()
        drained = third.finish(Mode.DRAIN)
    assert drained.drained
    read = output(spark, out)
    assert len(read) == len(set(read)) == 48 - 2 * sum(left(drained).values())
    fork = tmp_path / "fork"
    restore = Restore(savepoint=drained.savepoint, allow_drained=True)
    with LocalDriver(fork, APP, str(source), str(fork / "out"), "3", restore=restore) as other:
        other.finish()
    assert sorted(read + output(spark, fork / "out")) == list(range(48))


@pytest.mark.slow
def test_row4_row9_a_query_named_like_a_shard_reads_what_all_shards_write(
    spark: SparkSession, tmp_path: Path
) -> None:
    """It is a stage of its own, and ends when the last shard has."""
    source, out = tmp_path / "in", tmp_path / "out"
    add(source, 0, 5)
    with LocalDriver(tmp_path, APP, str(source), str(out), "2", "0.3", str(tmp_path / "all")) as driver:
        ended = driver.finish()
    assert {s.uid: len(s.tasks) for s in ended.stages} == {"copy": 2, "all/0": 1}
    assert ended.drained
    assert "stage all/0/0 reads what stage copy writes" in driver.log.read_text()
    assert sorted(r.v for r in spark.read.schema("v long").json(str(tmp_path / "all")).collect()) == list(
        range(10)
    )


@pytest.mark.parametrize("name", ["in/a {b}.json", "in/a[1].json", "in{1}/a.json", "in/12:00.json"])
def test_files_that_spark_cannot_read_by_name_are_refused(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    file = tmp_path / name
    file.parent.mkdir()
    file.write_text('{"v": 1}\n')
    with pytest.raises(BadShards, match=re.escape(file.name)) as refused:
        Shard("copy", 0, 1).files(str(file.parent))
    assert "Rename" in refused.value.remedy


def test_spark_reads_each_file_of_such_a_name_once_for_every_file_of_the_batch(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Why they are refused. When Spark has mended it, this fails, and nothing has to be refused any more."""
    source = tmp_path / "in"
    source.mkdir()
    for n in range(2):
        (source / f"{n} {{x}}.json").write_text(f'{{"v": {n}}}\n')
    read: list[int] = []
    rows = spark.readStream.schema("v long").json(str(source))
    query = rows.writeStream.foreachBatch(lambda frame, _: read.extend(r.v for r in frame.collect()))
    query.trigger(availableNow=True).start().awaitTermination()
    assert sorted(read) == [0, 0, 1, 1]
