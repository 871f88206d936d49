"""The two-phase commit of a sink, as the runtime calls it (FLIP-147, "final checkpoint"; Flink's
TwoPhaseCommitSinkFunction).

    recover(owner, batch)           before the query starts
    begin(batch), write(frame, …)   in each micro-batch: the rows become durable, and no reader sees them
    pre_commit(transaction)         at a checkpoint: its batches become a transaction that cannot fail
    commit(transaction)             the checkpoint has completed: all its rows become visible at once
    abort(transaction)              no completed checkpoint has it: its batches wait for another transaction

Spark does not roll back batches after a crash: it never runs a committed batch again. So the rows of a batch
must be durable when the batch ends, in a place where no reader looks. A transaction consists of whole
batches.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame

from .protocol.errors import StreamJobError

ALONE = "alone"  # prefix of the owner without the runtime, where each batch is a transaction of its own
_TEXT = re.compile(r"([A-Za-z0-9._-]{1,120})@(\d{1,18})\.(\d{1,18})")


class SinkFailed(StreamJobError):
    """The sink's external system refused an operation. The operation is retried."""

    reason: ClassVar[str] = "SinkFailed"
    retryable: ClassVar[bool] = True


class TransactionLost(StreamJobError):
    """A pre-committed transaction is neither pending nor committed: somebody rolled it back manually."""

    reason = "TransactionLost"


@dataclass(frozen=True, order=True)
class Transaction:
    """The batches of an owner that no earlier transaction has. The text form is OWNER@BATCH.CHECKPOINT.

    :param owner: identifies a task of one StreamJob, in letters, digits, `.`, `_` and `-`.
    :param batch: the last batch of the transaction.
    :param checkpoint: the checkpoint that the transaction was made for.
    """

    owner: str
    batch: int
    checkpoint: int

    def __str__(self) -> str:
        return f"{self.owner}@{self.batch}.{self.checkpoint}"

    @staticmethod
    def read(text: str) -> Transaction | None:
        """Parse the text form; None if the text does not have that form."""
        match = _TEXT.fullmatch(text)
        return Transaction(match[1], int(match[2]), int(match[3])) if match else None


class TransactionalSink(ABC):
    """A sink to pass to foreachBatch(). One object serves one query.

    Any method may be called again, after a crash or after it failed at any point. A method may raise any
    exception of its system: the batch or the checkpoint is then retried.

    :ivar folder: URI of the folder whose files are the output; None if the output is something else. A query
        that reads the folder is downstream.
    """

    folder: str | None = None
    _next: tuple[str, int] | None = None  # without the runtime: the expected next owner and batch

    @abstractmethod
    def recover(self, owner: str, batch: int | None) -> Sequence[Transaction]:
        """Prepare for a query of `owner` that continues after `batch`. Drop the rows of later batches.

        :param batch: None if the query starts with its first batch.
        :returns: the owner's transactions that are pre-committed and neither committed nor aborted. The
            runtime commits those that a completed checkpoint has, and aborts the others.
        """

    @abstractmethod
    def begin(self, batch: int) -> None:
        """Drop the rows that an earlier attempt at this batch wrote."""

    @abstractmethod
    def write(self, frame: DataFrame, batch: int) -> None:
        """Store the rows durably, where no reader sees them. After this returns, they survive a crash."""

    @abstractmethod
    def pre_commit(self, transaction: Transaction) -> None:
        """Do everything that can fail. After this returns, `commit` succeeds eventually, whatever happens."""

    @abstractmethod
    def commit(self, transaction: Transaction) -> None:
        """Publish the rows of the transaction atomically. Does nothing if it is already committed.

        :param transaction: after a restore from a savepoint, it may belong to another owner.
        :raises TransactionLost: the transaction is neither pre-committed nor committed.
        """

    @abstractmethod
    def abort(self, transaction: Transaction) -> None:
        """Dissolve the transaction, so that its batches belong to none. Does nothing if it does not exist."""

    def knows(self, owner: str) -> bool:
        """Whether another owner has written to this target.

        If not, the runtime does not commit that owner's transactions from a savepoint: the restored job
        writes to another target, and the owner itself commits its rows where it wrote them.
        """
        return True

    def write_batch(self, frame: DataFrame, batch: int) -> None:
        """Write one micro-batch under the runtime."""
        self.begin(batch)
        self.write(frame, batch)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write one micro-batch without the runtime and its checkpoints: the rows are visible at once."""
        owner = _alone(frame)
        if (owner, batch) != self._next:
            self._next = None
            for left in self.recover(owner, batch):
                self.abort(
                    left
                )  # a failed attempt at this batch; committed rows stay, and are not committed again
        self._next = None
        self.write_batch(frame, batch)
        transaction = Transaction(owner, batch, batch + 1)
        self.pre_commit(transaction)
        self.commit(transaction)
        self._next = owner, batch + 1


def _alone(frame: DataFrame) -> str:
    """The owner without the runtime, one per query. Its id is as stable as its checkpoint directory."""
    query_id = frame.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    return f"{ALONE}.{query_id}" if query_id else ALONE
