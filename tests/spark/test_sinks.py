"""Transactional sinks by themselves: what a reader sees is what is committed, whatever died in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.postgres import Postgres
from streamjob.sinks import FileSink, PostgresSink, Transaction, TransactionLost
from streamjob.storage.hadoop import HadoopFiles
from streamjob.transactional import SinkFailed

from .feeds import Feed
from .targets import OWNER, Target


def test_row5_rows_are_visible_when_their_transaction_is_committed(target: Target) -> None:
    sink, left = target.recovered(None)
    assert left == []
    target.write(sink, 0, 1, 2)
    target.write(sink, 1, 3)
    target.write(sink, 1, 4)  # the batch is run again
    first = Transaction(OWNER, 1, 1)
    sink.pre_commit(first)
    target.write(sink, 2, 5)
    second = Transaction(OWNER, 2, 2)
    sink.pre_commit(second)
    assert target.seen() == []
    sink.commit(first)
    assert target.seen() == [1, 2, 4]
    sink.commit(first)  # the answer was lost
    sink.commit(second)
    assert target.seen() == [1, 2, 4, 5]


def test_an_aborted_transaction_leaves_its_batches_to_the_next(target: Target) -> None:
    sink, _ = target.recovered(None)
    target.write(sink, 0, 1)
    sink.pre_commit(Transaction(OWNER, 0, 1))
    sink.abort(Transaction(OWNER, 0, 1))
    sink.abort(Transaction(OWNER, 0, 1))
    target.write(sink, 1, 2)
    both = Transaction(OWNER, 1, 2)
    sink.pre_commit(both)
    sink.pre_commit(both)
    assert target.seen() == []
    sink.commit(both)
    assert target.seen() == [1, 2]


def test_a_crash_loses_nothing_and_repeats_nothing(target: Target) -> None:
    sink, _ = target.recovered(None)
    target.write(sink, 0, 1)
    sink.pre_commit(Transaction(OWNER, 0, 1))
    target.write(sink, 1, 2)
    sink.pre_commit(Transaction(OWNER, 1, 2))
    target.write(sink, 2, 3)
    target.write(sink, 3, 4)  # Spark does not commit it: it is run again
    again, left = target.recovered(2)
    assert sorted(left) == [Transaction(OWNER, 0, 1), Transaction(OWNER, 1, 2)]
    again.commit(left[0] if left[0].batch == 0 else left[1])  # the index has checkpoint 1
    again.abort(Transaction(OWNER, 1, 2))
    assert target.seen() == [1]
    target.write(again, 3, 5)
    rest = Transaction(OWNER, 3, 2)
    again.pre_commit(rest)
    again.commit(rest)
    assert target.seen() == [1, 2, 3, 5]
    assert target.recovered(3)[1] == []


def test_another_job_commits_what_its_savepoint_has(target: Target) -> None:
    sink, _ = target.recovered(None)
    target.write(sink, 0, 1)
    theirs = Transaction(OWNER, 0, 1)
    sink.pre_commit(theirs)
    other, left = target.recovered(0, "shop.fork.main.aaaaaaaaaaaa")
    assert left == []
    other.commit(theirs)
    other.commit(theirs)
    sink.commit(theirs)
    assert target.seen() == [1]
    target.write(other, 1, 2)
    ours = Transaction("shop.fork.main.aaaaaaaaaaaa", 1, 2)
    other.pre_commit(ours)
    other.commit(ours)
    assert target.seen() == [1, 2]


def test_a_transaction_that_somebody_rolled_back_is_missed(target: Target) -> None:
    sink, _ = target.recovered(None)
    target.write(sink, 0, 1)
    sink.pre_commit(Transaction(OWNER, 0, 1))
    target.lose()
    with pytest.raises(TransactionLost, match=r"@0\.1"):
        sink.commit(Transaction(OWNER, 0, 1))


def test_nothing_new_is_a_transaction_too(target: Target) -> None:
    sink, _ = target.recovered(None)
    sink.pre_commit(Transaction(OWNER, 0, 1))
    target.write(sink, 0)
    sink.pre_commit(Transaction(OWNER, 0, 2))
    sink.commit(Transaction(OWNER, 0, 2))
    sink.pre_commit(Transaction(OWNER, 0, 3))
    sink.commit(Transaction(OWNER, 0, 3))
    assert target.seen() == []


def test_without_the_runtime_each_batch_is_visible_at_once(target: Target, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in")
    for i in range(3):
        feed.add([{"v": i}])
    writer = feed.stream(target.spark, "v int").writeStream.foreachBatch(target.open())
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()
    assert target.seen() == [0, 1, 2]


@pytest.mark.slow
def test_a_reader_of_files_sees_all_commits_over_compactions(folder: Target, tmp_path: Path) -> None:
    sink, _ = folder.recovered(None)
    for n in range(23):
        folder.write(sink, n, n)
        sink.pre_commit(Transaction(OWNER, n, n + 1))
        sink.commit(Transaction(OWNER, n, n + 1))
    assert folder.seen() == list(range(23))
    stream = folder.spark.readStream.schema("v int").parquet(str(tmp_path / "out"))
    query = stream.writeStream.format("memory").queryName("seen").trigger(availableNow=True).start()
    query.awaitTermination()
    assert folder.spark.table("seen").count() == 23


def test_a_crash_between_the_entry_and_its_note_does_not_repeat_it(
    folder: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, _ = folder.recovered(None)
    folder.write(sink, 0, 1)
    sink.pre_commit(Transaction(OWNER, 0, 1))

    class Killed(Exception):
        pass

    def die(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(FileSink, "_done", die)
    with pytest.raises(Killed):
        sink.commit(Transaction(OWNER, 0, 1))
    monkeypatch.undo()
    again, left = folder.recovered(0)
    assert left == []
    again.commit(Transaction(OWNER, 0, 1))
    assert folder.seen() == [1]


def test_no_folder_of_the_sink_grows_with_its_life(
    folder: Target, files: HadoopFiles, tmp_path: Path
) -> None:
    sink, _ = folder.recovered(None)
    for n in range(998, 1003):
        folder.write(sink, n, n)
        sink.pre_commit(Transaction(OWNER, n, n))
        sink.commit(Transaction(OWNER, n, n))
    assert folder.seen() == list(range(998, 1003))
    root = tmp_path / "out"
    assert sorted(p.name for p in (root / "_batches" / OWNER).iterdir()) == ["1"]
    assert [p.name for p in (root / "_transactions").iterdir() if not p.name.startswith(".")] == [
        f"{OWNER}@1002.1002.done"
    ]


def test_a_constraint_is_checked_before_the_checkpoint_completes(table: Target) -> None:
    sink, _ = table.recovered(None)
    table.write(sink, 0, 5000)
    with pytest.raises(SinkFailed, match="sink_test_v_check") as refused:
        sink.pre_commit(Transaction(OWNER, 0, 1))
    assert refused.value.retryable


def test_a_prepared_transaction_holds_up_nobody(table: Target) -> None:
    sink, _ = table.recovered(None)
    table.write(sink, 0, 1)
    sink.pre_commit(Transaction(OWNER, 0, 1))
    other, _ = table.recovered(None, "shop.orders.main_1.0123456789ab")
    table.write(other, 0, 2)
    other.pre_commit(Transaction("shop.orders.main_1.0123456789ab", 0, 1))
    table.write(sink, 1, 3)
    for transaction in (Transaction(OWNER, 0, 1), Transaction("shop.orders.main_1.0123456789ab", 0, 1)):
        sink.commit(transaction)
    assert table.seen() == [1, 2]


def test_prepared_transactions_survive_the_server(table: Target, postgres: Postgres) -> None:
    sink, _ = table.recovered(None)
    table.write(sink, 0, 1)
    sink.pre_commit(Transaction(OWNER, 0, 1))
    postgres.restart()
    sink.commit(Transaction(OWNER, 0, 1))
    assert table.seen() == [1]


def test_a_server_without_prepared_transactions_is_named(table: Target, tmp_path: Path) -> None:
    with pytest.raises(SinkFailed, match="refused") as refused:
        PostgresSink("jdbc:postgresql://127.0.0.1:1/none?user=x", "t").recover(OWNER, None)
    assert "tried again" in refused.value.remedy
    with pytest.raises(ValueError, match="table's name"):
        PostgresSink("jdbc:postgresql://127.0.0.1/x", 'bad"; DROP')
