"""Which transactions of a sink are committed and which are aborted, over checkpoints, crashes and another
parallelism.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamjob.protocol.errors import FormatError
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    JobRef,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.graph import TaskName
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Restore
from streamjob.protocol.restore.recovery import Start
from streamjob.runtime.query.transactions import Transactions, owner_of
from streamjob.runtime.startup.restore_point import RestorePoints
from streamjob.runtime.startup.sharding.inherited_transactions import inherit
from streamjob.transactional import SinkFailed, Transaction, TransactionalSink

from ..localfiles import LocalFiles

JOB = JobRef("shop", "orders", "uid-1")


class Endpoint:
    """Where sinks write: `waiting` rows by owner and batch, `pending` rows by transaction, `visible` rows."""

    def __init__(self) -> None:
        self.waiting: dict[str, dict[int, str]] = defaultdict(dict)
        self.pending: dict[Transaction, dict[int, str]] = {}
        self.visible: list[str] = []
        self.asked: list[Transaction] = []  # to be committed
        self.away = False


class Sink(TransactionalSink):
    def __init__(self, place: Endpoint, *, strange: bool = False) -> None:
        """:param strange: it says of no other owner that it has written here."""
        self.place, self.strange = place, strange
        self.owner = ""

    def knows(self, owner: str) -> bool:
        return not self.strange

    def recover(self, owner: str, batch: int | None) -> Sequence[Transaction]:
        self.owner = owner
        mine = self.place.waiting[owner]
        for later in [b for b in mine if b > (-1 if batch is None else batch)]:
            del mine[later]
        return [t for t in self.place.pending if t.owner == owner]

    def begin(self, batch: int) -> None:
        self.place.waiting[self.owner].pop(batch, None)

    def write(self, frame: Any, batch: int) -> None:
        self.place.waiting[self.owner][batch] = frame

    def pre_commit(self, transaction: Transaction) -> None:
        if self.place.away:
            raise OSError("no route to host")
        mine = self.place.waiting[self.owner]
        self.place.pending[transaction] = {b: mine.pop(b) for b in sorted(mine) if b <= transaction.batch}

    def commit(self, transaction: Transaction) -> None:
        self.place.asked.append(transaction)
        self.place.visible += self.place.pending.pop(transaction, {}).values()

    def abort(self, transaction: Transaction) -> None:
        self.place.waiting[transaction.owner] |= self.place.pending.pop(transaction, {})


@pytest.fixture
def place() -> Endpoint:
    return Endpoint()


def task(
    place: Endpoint, batch: int | None = None, recorded: Sequence[str] = (), name: str = "main"
) -> Transactions:
    """A task that begins after `batch`."""
    transactions = Transactions(Sink(place), owner_of(JOB, name))
    transactions.recover(batch, recorded)
    return transactions


def write(transactions: Transactions, *batches: int) -> None:
    for batch in batches:
        transactions.sink.write_batch(f"row {batch}", batch)  # type: ignore[arg-type]


def test_row5_a_completed_checkpoint_commits_its_own_and_what_was_before_it(place: Endpoint) -> None:
    t = task(place)
    write(t, 0, 1)
    t.pre_commit(1, 1)
    write(t, 2)
    t.pre_commit(2, 2)
    write(t, 3)
    t.pre_commit(3, 3)
    assert len(t.up_to(2)) == 2
    t.commit(2)  # the notification of 1 was lost
    assert place.visible == ["row 0", "row 1", "row 2"]
    t.abort_after(2)
    assert place.pending == {}
    t.pre_commit(4, 3)
    t.commit(4)
    assert place.visible[3:] == ["row 3"]


def test_a_checkpoint_without_a_new_batch_needs_no_transaction(place: Endpoint) -> None:
    t = task(place)
    write(t, 0)
    assert t.pre_commit(1, 0) == 0
    assert t.pre_commit(1, 0) == 0
    assert t.pre_commit(2, 0) == 0
    assert t.pre_commit(3, None) is None
    assert len(t.up_to(3)) == 1


def test_a_repeated_pre_commit_has_the_batch_of_the_first(place: Endpoint) -> None:
    """The query may have committed another one meanwhile, whose rows are in no transaction yet."""
    t = task(place)
    write(t, 0)
    assert t.pre_commit(1, 0) == 0
    write(t, 1)
    assert t.pre_commit(1, 1) == 0
    assert t.pre_commit(2, 1) == 1


def test_the_next_epoch_commits_what_the_record_has_and_aborts_the_rest(place: Endpoint) -> None:
    t = task(place)
    write(t, 0)
    t.pre_commit(1, 0)
    recorded = t.up_to(1)
    write(t, 1)
    t.pre_commit(2, 1)
    write(t, 2)  # and Spark does not commit it
    again = task(place, 1, recorded)
    assert place.visible == ["row 0"]
    again.pre_commit(2, 1)
    again.commit(2)
    assert place.visible == ["row 0", "row 1"]
    assert place.waiting[again.owner] == {}


def test_what_the_sink_raises_is_said_and_tried_again(place: Endpoint) -> None:
    t = task(place)
    write(t, 0)
    place.away = True
    with pytest.raises(SinkFailed, match="could not pre-commit: no route to host"):
        t.pre_commit(1, 0)
    place.away = False
    t.pre_commit(1, 0)
    assert len(t.up_to(1)) == len(place.pending) == 1


def test_a_record_with_something_else_in_it_is_refused(place: Endpoint) -> None:
    with pytest.raises(FormatError, match="OWNER@BATCH"):
        task(place, 0, ["rm -rf"])


def test_the_owner_is_readable_short_and_of_one_job(place: Endpoint) -> None:
    name = owner_of(JOB, "per minute/1")
    assert name.startswith("shop.orders.per_minute_1.")
    assert len(owner_of(JobRef("n" * 63, "j" * 200, "u"), "x" * 300)) <= 113
    assert name != owner_of(JobRef("shop", "orders", "uid-2"), "per minute/1")
    assert Transaction.read(f"{name}@3.4") == Transaction(name, 3, 4)


class Redistributed:
    """A stage of three tasks that has two now, whose last checkpoint completed with three.

    Each task had come to batch 1.
    """

    def __init__(self, place: Endpoint, home: Path) -> None:
        self.place, self.home = place, home
        self.files: Any = LocalFiles()
        tasks = []
        for index in range(3):
            old = task(place, name=f"in/{index}")
            write(old, 0)
            old.pre_commit(1, 0)
            recorded = old.up_to(1)
            write(old, 1, 2)
            directory = f"file:{home}/in/{index}"
            self.commit(directory, 0, 1)
            tasks.append(TaskRecord(index, directory, 0, transactions=recorded))
        stage = StageRecord(
            "in", tuple(tasks), (OperatorRecord("splits", OperatorKind.LIST, "splits", False),)
        )
        record = CheckpointRecord(1, 1, None, None, None, "2026-01-01T00:00:00Z", (stage,))
        config = DriverConfig(JOB, 2, Application(file="a.py"), f"file:{home}", restore=Restore(record))
        plan = SimpleNamespace(tasks=[SimpleNamespace(start=Start.REDISTRIBUTED)] * 2)
        files: Any = self.files
        point = RestorePoints(config).of(files, "in")
        self.stage: Any = SimpleNamespace(point=point, plan=plan, parallelism=2, location=self.location)
        for index in range(2):
            self.commit(self.location(index), 0, 1)  # they begin behind the old ones

    def location(self, index: int) -> str:
        return f"file:{self.home}/in/{index}-of-2-from-1"

    def commit(self, directory: str, *batches: int) -> None:
        for batch in batches:
            self.files.write_new(f"{directory}/commits/{batch}", b"v1\n{}")

    def begin(self, index: int, batch: int) -> Transactions:
        """A task, which continues after a batch."""
        new = Transactions(Sink(self.place), owner_of(JOB, f"in/{index}"))
        inherit(JOB, TaskName("in", f"in/{index}", index, 2), self.stage, new.sink)
        new.recover(batch, ())
        return new


def test_row9_with_another_parallelism_nothing_that_was_written_is_lost(
    place: Endpoint, tmp_path: Path
) -> None:
    """After a crash: the old tasks' positions are where the new ones begin, also behind
    the last checkpoint.
    """
    job = Redistributed(place, tmp_path)
    for index in (1, 0):
        job.begin(index, 1)
    assert sorted(place.visible) == ["row 0"] * 3 + ["row 1"] * 3
    assert place.pending == {}


def test_r10_a_crash_before_the_first_checkpoint_of_another_parallelism_loses_nothing(
    place: Endpoint, tmp_path: Path
) -> None:
    """The new tasks have the owners of the old ones; what they have written since is not the old ones' to
    drop.
    """
    job = Redistributed(place, tmp_path)
    for index in (0, 1):
        new = job.begin(index, 1)
        write(new, 2, 3)
        new.pre_commit(2, 2)
        job.commit(job.location(index), 2, 3)
    place.visible.clear()
    for index in (0, 1):
        again = job.begin(index, 3)
        again.pre_commit(3, 3)
        again.commit(3)
    assert sorted(place.visible) == ["row 2", "row 2", "row 3", "row 3"]


def test_r10_what_another_job_wrote_elsewhere_is_not_committed_here(place: Endpoint) -> None:
    theirs = task(place)
    write(theirs, 0)
    theirs.pre_commit(1, 0)
    elsewhere = Endpoint()
    fork = Transactions(Sink(elsewhere, strange=True), owner_of(JobRef("shop", "fork", "uid-2"), "main"))
    fork.recover(0, theirs.up_to(1))
    assert not place.visible
    assert not elsewhere.asked
    moved = Transactions(Sink(place), fork.owner)
    moved.recover(0, theirs.up_to(1))
    assert place.visible == ["row 0"]
