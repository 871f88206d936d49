"""The two-phase commit of a sink, as the runtime calls it (FLIP-147, "final checkpoint"; Flink's TwoPhaseCommitSinkFunction).

    recover(owner, batch)           before the query starts
    begin(batch), write(frame, …)   in each micro-batch: the rows are safe, and nobody sees them
    pre_commit(transaction)         at a checkpoint: the batches up to its own are a transaction, whose commit cannot fail
    commit(transaction)             the checkpoint has completed: all of it becomes visible at once
    abort(transaction)              no completed checkpoint has it: its batches wait for another one

Spark's batches are not rolled back after a crash: a batch that Spark has committed is not run again. So what a batch wrote is
safe from the end of the batch on, in a place that no reader looks at, and a transaction is made of whole batches.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame

from ..protocol.errors import StreamJobError

ALONE = "alone"  # begins the owner where no runtime is: each batch is a transaction of its own
_TEXT = re.compile(r"([A-Za-z0-9._-]{1,120})@(\d{1,18})\.(\d{1,18})")


class SinkFailed(StreamJobError):
    """The sink's own system refused something. It is tried again."""

    reason: ClassVar[str] = "SinkFailed"
    retryable: ClassVar[bool] = True


class TransactionLost(StreamJobError):
    """It was pre-committed, and is neither there nor committed: somebody has rolled it back by hand."""

    reason = "TransactionLost"


@dataclass(frozen=True, order=True)
class Transaction:
    """The batches of `owner` up to `batch` that no earlier transaction has; made for checkpoint `checkpoint`.

    `owner` is a task of one StreamJob, in letters, digits, `.`, `_` and `-`. The text form is OWNER@BATCH.CHECKPOINT.
    """

    owner: str
    batch: int
    checkpoint: int

    def __str__(self) -> str:
        return f"{self.owner}@{self.batch}.{self.checkpoint}"

    @staticmethod
    def read(text: str) -> Transaction | None:
        """None if it is no such text."""
        match = _TEXT.fullmatch(text)
        return Transaction(match[1], int(match[2]), int(match[3])) if match else None


class TransactionalSink(ABC):
    """What to give to foreachBatch(). One object serves one query. All methods may be called again, after a crash or because they
    failed at any point of what they do, and raise what their system raises: the batch or the checkpoint is then tried again.
    """

    _next: tuple[str, int] | None = None  # without the runtime: owner and batch that follow on the last

    @abstractmethod
    def recover(self, owner: str, batch: int | None) -> Sequence[Transaction]:
        """Get ready: the query of `owner` goes on after `batch`. What later batches wrote is dropped.

        Returns the owner's transactions that are pre-committed and neither committed nor aborted; the runtime commits those that
        a completed checkpoint has, and aborts the others.
        """

    @abstractmethod
    def begin(self, batch: int) -> None:
        """Drop what an earlier attempt at this batch wrote."""

    @abstractmethod
    def write(self, frame: DataFrame, batch: int) -> None:
        """Keep the rows, where no reader sees them. When it returns, they survive a crash."""

    @abstractmethod
    def pre_commit(self, transaction: Transaction) -> None:
        """Everything that can fail happens here: whatever happens now, `commit` will succeed in the end."""

    @abstractmethod
    def commit(self, transaction: Transaction) -> None:
        """Make it visible, all or nothing; nothing if it has been committed. It may be another owner's, from a savepoint.

        :raises TransactionLost: it is neither pre-committed nor committed.
        """

    @abstractmethod
    def abort(self, transaction: Transaction) -> None:
        """Its batches belong to no transaction again; nothing if it is not there."""

    def knows(self, owner: str) -> bool:
        """Whether another owner has written to this very place. If not, the runtime does not commit what a savepoint has
        of it: the savepoint was restored into another place, and the owner commits its rows where it wrote them."""
        return True

    def write_batch(self, frame: DataFrame, batch: int) -> None:
        """One micro-batch under the runtime."""
        self.begin(batch)
        self.write(frame, batch)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """One micro-batch of a script that runs without the runtime, where nobody takes checkpoints: visible at once."""
        owner = _alone(frame)
        if (owner, batch) != self._next:
            self._next = None
            for left in self.recover(owner, batch):
                self.abort(
                    left
                )  # an attempt at this batch; what is committed stays, and is not committed again
        self._next = None
        self.write_batch(frame, batch)
        transaction = Transaction(owner, batch, batch + 1)
        self.pre_commit(transaction)
        self.commit(transaction)
        self._next = owner, batch + 1


def _alone(frame: DataFrame) -> str:
    """Each query is an owner; Spark's id of it stays the same as long as its checkpoint directory does."""
    query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    return f"{ALONE}.{query_id}" if query_id else ALONE
