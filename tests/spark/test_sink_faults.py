"""Transactional sinks whose storage refuses, breaks off or lies: nothing is lost, and
nothing is there twice.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from streamjob.protocol.errors import StreamJobError
from streamjob.runtime.query.transactions import Transactions
from streamjob.sinks import FileSink, Transaction, TransactionLost
from streamjob.storage import local_disk
from streamjob.storage.hadoop import FileExists, HadoopFiles, StorageFull
from tests.runtime.disks import Storage

from .targets import OWNER, Target

FORK = "shop.fork.main.aaaaaaaaaaaa"
CHANGES = ("move", "write_new", "delete")


class Disk:
    """Makes the `number`-th change of files fail, once, before it was made or after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._number, self._after = -1, False
        self.made = 0
        for name in CHANGES:
            monkeypatch.setattr(HadoopFiles, name, self._failing(getattr(HadoopFiles, name)))

    def fails_at(self, number: int, *, after: bool) -> None:
        self.made, self._number, self._after = 0, number, after

    def _failing(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def changed(files: HadoopFiles, *arguments: Any) -> Any:
            mine, self.made = self.made == self._number, self.made + 1
            if not mine or self._after:
                change(files, *arguments)
            if mine:
                raise StorageFull(str(arguments[0]), "write", "no space left on device")

        return changed


def file_of(out: Path, batch: int, name: str) -> None:
    """What Spark leaves of a batch, without Spark."""
    place = out / "_batches" / OWNER / "0" / str(batch)
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text('{"v": 1}\n')


def logged(out: Path) -> list[str]:
    """The names of all files that a reader finds, as often as it finds them."""
    entries = {int(p.name.split(".")[0]): p for p in (out / "_spark_metadata").iterdir() if p.name[0] != "."}
    first = max((n for n, p in entries.items() if p.suffix), default=0)
    lines = [line for n, p in entries.items() if n >= first for line in p.read_text().splitlines()[1:]]
    return sorted(json.loads(line)["path"].rsplit("/", 1)[1] for line in lines)


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("crash", [False, True])
def test_r2_a_commit_that_fails_anywhere_is_repeated_without_repeating_a_row(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    compacts: bool,
    after: bool,
    crash: bool,
) -> None:
    disk = Disk(monkeypatch)
    ended = False
    number = 0
    while not ended:
        out = tmp_path / str(number)
        if compacts:
            log = out / "_spark_metadata"
            log.mkdir(parents=True)
            for n in range(9):
                (log / str(n)).write_text("v1")
        sink = FileSink(str(out))
        sink.recover(OWNER, None)
        for batch in range(2):
            file_of(out, batch, f"part-{batch}.json")
        disk.fails_at(-1, after=after)
        sink.pre_commit(Transaction(OWNER, 1, 1))
        disk.fails_at(number, after=after)
        try:
            sink.commit(Transaction(OWNER, 1, 1))
            ended = True
        except StorageFull:
            if crash:
                sink = FileSink(str(out))
                sink.recover(OWNER, 1)
            sink.commit(Transaction(OWNER, 1, 1))
        disk.fails_at(-1, after=after)
        file_of(out, 2, "part-2.json")
        sink.pre_commit(Transaction(OWNER, 2, 2))
        sink.commit(Transaction(OWNER, 2, 2))
        assert logged(out) == ["part-0.json", "part-1.json", "part-2.json"], f"change {number}"
        found = spark.read.schema("v int").json(str(out)).count() if number % 3 == 0 else 3
        assert found == 3
        number += 1
    assert number > 4


@pytest.mark.parametrize("after", [False, True])
def test_r2_a_pre_commit_that_fails_anywhere_is_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    disk = Disk(monkeypatch)
    for number in range(3):
        out = tmp_path / str(number)
        sink = FileSink(str(out))
        sink.recover(OWNER, None)
        file_of(out, 0, "part-0.json")
        disk.fails_at(number, after=after)
        with suppress(StorageFull):
            sink.pre_commit(Transaction(OWNER, 0, 1))
        disk.fails_at(-1, after=after)
        sink.pre_commit(Transaction(OWNER, 0, 1))
        sink.commit(Transaction(OWNER, 0, 1))
        assert logged(out) == ["part-0.json"]


def test_r2_an_abort_of_what_was_half_committed_gives_all_of_it_back(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork had begun to commit what its savepoint has; the savepoint never came into the job's index."""
    sink = FileSink(str(tmp_path))
    sink.recover(OWNER, None)
    file_of(tmp_path, 0, "part-0.json")
    file_of(tmp_path, 0, "part-1.json")
    sink.pre_commit(Transaction(OWNER, 0, 1))
    disk = Disk(monkeypatch)
    disk.fails_at(1, after=False)
    fork = FileSink(str(tmp_path))
    fork.recover(FORK, 0)
    with pytest.raises(StorageFull):
        fork.commit(Transaction(OWNER, 0, 1))
    sink.abort(Transaction(OWNER, 0, 1))
    sink.pre_commit(Transaction(OWNER, 0, 2))
    sink.commit(Transaction(OWNER, 0, 2))
    assert logged(tmp_path) == ["part-0.json", "part-1.json"]


def test_r2_a_file_that_a_crash_left_in_both_places_is_committed_on_s3(
    bucket: Storage, files: HadoopFiles
) -> None:
    """Its rename copies, then deletes."""
    folder = f"{bucket.root}/out"
    sink = FileSink(folder)
    sink.recover(OWNER, None)
    files.write_new(f"{folder}/_batches/{OWNER}/0/0/part-0.json", b'{"v": 1}\n')
    sink.pre_commit(Transaction(OWNER, 0, 1))
    files.write_new(f"{folder}/part-0.json", b'{"v": 1}\n')
    sink.commit(Transaction(OWNER, 0, 1))
    assert files.spark.read.schema("v int").json(folder).count() == 1
    assert not files.exists(f"{folder}/_batches/{OWNER}/0/0/part-0.json")


def test_r2_a_longer_file_of_somebody_faster_is_a_file_that_exists_on_s3(
    bucket: Storage, files: HadoopFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that appends to the log of its sink takes the next number then."""
    files.write_new(f"{bucket.root}/0", b"longer")
    monkeypatch.setattr(HadoopFiles, "exists", lambda *_: False)  # it has come since
    with pytest.raises(FileExists):
        files.write_new(f"{bucket.root}/0", b"short")


def test_r2_a_link_that_was_made_although_the_answer_is_that_it_exists(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS repeats a request whose answer was lost."""
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    local_disk.write_new(tmp_path / "0", b"mine")
    assert (tmp_path / "0").read_bytes() == b"mine"
    with pytest.raises(FileExistsError):
        local_disk.write_new(tmp_path / "0", b"other")


def test_r2_the_log_and_the_hidden_folders_do_not_grow_for_ever(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = FileSink(str(tmp_path))
    sink.recover(OWNER, None)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 3600)
    for n in range(0, 250):
        file_of(tmp_path, n, f"part-{n:03}.json")
        sink.pre_commit(Transaction(OWNER, n, n))
        sink.commit(Transaction(OWNER, n, n))
    assert len([p for p in (tmp_path / "_spark_metadata").iterdir() if p.name[0] != "."]) < 130
    assert len(logged(tmp_path)) == 250
    assert spark.read.schema("v int").json(str(tmp_path)).count() == 250


def test_r9_a_sink_that_has_never_had_a_batch(target: Target) -> None:
    sink, left = target.recovered(3)
    assert left == []
    first, second = Transaction(OWNER, 3, 1), Transaction(OWNER, 3, 2)
    sink.abort(first)
    sink.pre_commit(first)
    sink.pre_commit(first)
    sink.abort(first)
    sink.pre_commit(second)
    again, left = target.recovered(3)
    assert left == [second]
    again.commit(second)
    again.commit(second)
    assert target.recovered(3)[1] == []
    target.write(again, 4, 7)
    again.pre_commit(Transaction(OWNER, 4, 3))
    again.commit(Transaction(OWNER, 4, 3))
    assert target.seen() == [7]


def test_r9_what_is_missing_where_there_never_was_a_batch_is_said(target: Target) -> None:
    sink, _ = target.recovered(3)
    with pytest.raises(TransactionLost):
        sink.commit(Transaction(OWNER, 3, 1))


def test_r10_a_savepoint_is_restored_into_another_place(target: Target) -> None:
    sink, _ = target.recovered(None)
    target.write(sink, 0, 1)
    theirs = Transaction(OWNER, 0, 1)
    sink.pre_commit(theirs)
    other = target.elsewhere()
    fork = Transactions(other.open(), FORK)
    for _ in range(2):  # also after a crash before its first checkpoint
        fork.recover(0, [str(theirs)])
    assert target.seen() == other.seen() == [], "whose rows they are commits them"
    sink.commit(theirs)
    other.write(fork.sink, 1, 2)
    fork.pre_commit(2, 1)
    fork = Transactions(other.open(), FORK)
    fork.recover(1, [f"{FORK}@1.2"])
    other.write(fork.sink, 2, 3)
    fork.pre_commit(3, 2)
    fork.commit(3)
    assert target.seen() == [1]
    assert other.seen() == [2, 3]


def test_r10_a_moved_job_commits_what_its_savepoint_has_in_the_same_place(target: Target) -> None:
    sink, _ = target.recovered(None)
    target.write(sink, 0, 1)
    theirs = Transaction(OWNER, 0, 1)
    sink.pre_commit(theirs)
    moved = Transactions(target.open(), FORK)
    for _ in range(2):
        moved.recover(0, [str(theirs)])
    assert target.seen() == [1]
    target.write(moved.sink, 1, 2)
    moved.pre_commit(2, 1)
    moved.commit(2)
    assert target.seen() == [1, 2]


@pytest.mark.parametrize("batches", [1, 2])
def test_r10_what_was_rolled_back_in_the_same_place_is_missed_by_a_fork_too(
    target: Target, batches: int
) -> None:
    sink, _ = target.recovered(None)
    for n in range(batches):
        target.write(sink, n, n)
        theirs = Transaction(OWNER, n, n)
        sink.pre_commit(theirs)
        if n + 1 < batches:
            sink.commit(theirs)
    target.lose()
    with pytest.raises(TransactionLost):
        Transactions(target.open(), FORK).recover(batches - 1, [str(theirs)])
    with pytest.raises(TransactionLost):
        Transactions(target.open(), OWNER).recover(batches - 1, [str(theirs)])


def test_r10_a_job_misses_its_own_transaction_also_in_another_folder(folder: Target) -> None:
    """Its folder was changed while its driver was dead: nobody else commits those rows."""
    sink, _ = folder.recovered(None)
    folder.write(sink, 0, 1)
    sink.pre_commit(Transaction(OWNER, 0, 1))
    with pytest.raises(TransactionLost):
        Transactions(folder.elsewhere().open(), OWNER).recover(0, [f"{OWNER}@0.1"])


def test_r10_a_job_commits_its_own_transaction_of_another_table(table: Target) -> None:
    """So was its table; the database knows the transaction all the same."""
    sink, _ = table.recovered(None)
    table.write(sink, 0, 1)
    sink.pre_commit(Transaction(OWNER, 0, 1))
    Transactions(table.elsewhere().open(), OWNER).recover(0, [f"{OWNER}@0.1"])
    assert table.seen() == [1]


def remove_log(log: Path) -> None:
    shutil.rmtree(log)


def remove_compacted(log: Path) -> None:
    (log / "9.compact").unlink()


def remove_newest(log: Path) -> None:
    (log / "11").unlink()


@pytest.mark.parametrize(
    ("loss", "reason"),
    [(remove_log, "SinkGone"), (remove_compacted, "SinkBehind"), (remove_newest, "SinkBehind")],
)
def test_a_log_that_was_lost_is_found_before_the_first_batch(
    spark: SparkSession, tmp_path: Path, loss: Callable[[Path], None], reason: str
) -> None:
    sink = FileSink(str(tmp_path))
    sink.recover(OWNER, None)
    for n in range(12):
        file_of(tmp_path, n, f"part-{n:03}.json")
        sink.pre_commit(Transaction(OWNER, n, n))
        sink.commit(Transaction(OWNER, n, n))
    FileSink(str(tmp_path)).recover(OWNER, 11)
    loss(tmp_path / "_spark_metadata")
    with pytest.raises(StreamJobError) as refused:
        FileSink(str(tmp_path)).recover(OWNER, 11)
    assert refused.value.reason == reason
    assert "_spark_metadata" in refused.value.remedy


def test_a_sink_that_has_committed_no_row_misses_no_log(spark: SparkSession, tmp_path: Path) -> None:
    sink = FileSink(str(tmp_path))
    sink.recover(OWNER, None)
    sink.pre_commit(Transaction(OWNER, 3, 1))
    sink.commit(Transaction(OWNER, 3, 1))
    assert FileSink(str(tmp_path)).recover(OWNER, 3) == []
