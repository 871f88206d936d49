"""The transactions of one task: which are pre-committed for which checkpoint, and which a checkpoint commits.

Thread-safe. The record of the completed checkpoint lists the transactions to commit. So after a crash the
next epoch knows what to commit and what to abort without any lost in-memory state.
"""

from __future__ import annotations

import hashlib
import logging
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from ...jvm.errors import one_line
from ...protocol.errors import FormatError, StreamJobError
from ...protocol.formats.records import JobRef
from ...transactional import SinkFailed, Transaction, TransactionalSink

log = logging.getLogger("streamjob")


def owner_of(job: JobRef, task: str) -> str:
    """The owner name of a task's transactions: readable, and within the length limit of database servers.

    It contains a hash of the job's uid, so a job that is created again under the same name has other owners.
    """
    text = f"{job.namespace}.{job.name}.{task}"
    digest = hashlib.sha256(f"{text}.{job.uid}".encode()).hexdigest()[:12]
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', text)[:100]}.{digest}"


def _read(text: str) -> Transaction:
    transaction = Transaction.read(text)
    if transaction is None:
        raise FormatError(
            f"the checkpoint has a transaction {text[:200]!r}, which is not OWNER@BATCH.CHECKPOINT",
            remedy="Restore another checkpoint",
        )
    return transaction


class Transactions:
    def __init__(self, sink: TransactionalSink, owner: str) -> None:
        self.sink = sink
        self.owner = owner
        self._pending: dict[int, Transaction] = {}  # by checkpoint
        self._batch: int | None = None  # the last batch that is in a transaction
        self._lock = threading.Lock()

    def recover(self, batch: int | None, recorded: Iterable[str]) -> None:
        """Before the query starts, commit what the latest completed checkpoint lists, and abort all others.

        The checkpoint may belong to another job, whose savepoint was restored. If that job wrote to the same
        place, its transactions are committed here unless it has done so itself. If it wrote elsewhere, its
        rows belong to that place, and it commits them there: this job starts after them, and writes only the
        rows of its own batches.

        :param batch: the last committed batch of the query, None if there is none.
        :param recorded: `TaskRecord.transactions` of that checkpoint.
        :raises SinkFailed: the sink refused.
        :raises FormatError: a recorded transaction cannot be parsed.
        """
        with self._lock, self._said("recover"):
            wanted = [_read(text) for text in recorded]
            left = set(self.sink.recover(self.owner, batch))
            for transaction in wanted:
                self._commit_recorded(transaction)
            for transaction in sorted(left - set(wanted)):
                self.sink.abort(transaction)
            self._batch = max((t.batch for t in wanted if t.owner == self.owner), default=None)
        if wanted or left:
            log.info(
                "%s: %d recorded transactions, %d aborted", self.owner, len(wanted), len(left - set(wanted))
            )

    def _commit_recorded(self, transaction: Transaction) -> None:
        if transaction.owner == self.owner or self.sink.knows(transaction.owner):
            self.sink.commit(transaction)
        else:
            log.info("%s: %s was written to another place and is committed there", self.owner, transaction)

    def pre_commit(self, checkpoint: int, batch: int | None) -> int | None:
        """Pre-commit the batches up to `batch` for a checkpoint.

        May be repeated. Does nothing if there is no new batch since the last transaction.

        :returns: the last batch that a transaction of this checkpoint or of an earlier one has.
        :raises SinkFailed: the sink refused.
        """
        with self._lock, self._said("pre-commit"):
            if checkpoint in self._pending:
                return self._pending[checkpoint].batch
            if batch is None or batch == self._batch:
                return batch
            transaction = Transaction(self.owner, batch, checkpoint)
            self.sink.pre_commit(transaction)
            self._pending[checkpoint], self._batch = transaction, batch
            return batch

    def up_to(self, checkpoint: int) -> tuple[str, ...]:
        """The transactions pre-committed for this checkpoint and for earlier ones, for its record."""
        with self._lock:
            return tuple(str(t) for number, t in sorted(self._pending.items()) if number <= checkpoint)

    def commit(self, checkpoint: int) -> None:
        """Commit the transactions of this checkpoint and of earlier ones.

        :raises SinkFailed: the sink refused. Transactions that it already committed stay committed.
        """
        for number, transaction in self._those(lambda n: n <= checkpoint):
            with self._said("commit"):
                self.sink.commit(transaction)
            log.info("%s: committed", transaction)
            with self._lock:
                self._pending.pop(number, None)

    def abort_after(self, checkpoint: int) -> None:
        """Abort the transactions of later checkpoints.

        :raises SinkFailed: the sink refused.
        """
        for number, transaction in self._those(lambda n: n > checkpoint):
            with self._said("abort"):
                self.sink.abort(transaction)
            log.info("%s: aborted", transaction)
            with self._lock:
                self._pending.pop(number, None)
                self._batch = None

    def _those(self, which: Callable[[int], bool]) -> list[tuple[int, Transaction]]:
        with self._lock:
            return [(number, t) for number, t in sorted(self._pending.items()) if which(number)]

    @contextmanager
    def _said(self, what: str) -> Iterator[None]:
        try:
            yield
        except StreamJobError:
            raise
        except Exception as e:
            raise SinkFailed(
                f"the sink of {self.owner} could not {what}: {one_line(e)}", remedy="It is tried again"
            ) from e
