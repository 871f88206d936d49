"""Keeps the driver-side state of a query consistent with its batches.

The state is persisted inside the micro-batch, after the script's function has returned and before Spark
commits. So every committed batch has its state on storage, and a batch that is run again gets the state after
the previous batch, whatever a failed attempt left. The files are in the checkpoint directory, so savepoints
and restores include them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from ... import state
from ...protocol.errors import StreamJobError
from ...protocol.formats import driver_state as formats
from ...protocol.formats.driver_state import Entries
from ...protocol.formats.records import OperatorRecord
from ...state import State
from ...storage.hadoop import HadoopFiles, NotFound, StorageError
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.foreach_batch.function import BatchFunction

log = logging.getLogger("streamjob")

RETAINED = "spark.sql.streaming.minBatchesToRetain"
LEAST_RETAINED = 10  # a checkpoint is recorded while later batches already run
BEFORE_THE_FIRST = -1  # the batch before batch 0

BatchStep = Callable[[int], object]


class StateNotKept(StreamJobError):
    """The script declares state that cannot be kept with a batch."""

    reason: ClassVar[str] = "StateNotKept"


class StateTooLarge(StreamJobError):
    reason = "StateTooLarge"


def keep(
    directory: CheckpointDir,
    query: str,
    each_batch: BatchFunction | None,
    assigned: Mapping[str, Sequence[str]] | None = None,
) -> StateManager | None:
    """Load the query's state as of its last committed batch, and manage it from now on.

    Called again for the same writer, it replaces the steps of the earlier call.

    :param assigned: initial state in a new directory, which replaces the script's
        (`recovery.TaskPlan.state`).
    :returns: None if the script declares no state for the query.
    :raises StateNotKept: the query has no foreachBatch function.
    :raises StorageError: the state cannot be read.
    :raises FormatError: a state file is malformed.
    """
    states = state.of(query)
    if not states:
        return None
    if each_batch is None:
        raise StateNotKept(
            f"state {states[0].name!r} is declared for query {query!r}, which does not write with "
            "foreachBatch: nothing would change it together with a batch",
            remedy="Declare it for a query that writes with foreachBatch, or not at all",
        )
    retained = int(directory.files.spark.conf.get(RETAINED) or 100)
    manager = StateManager(query, directory, states, assigned or {}, max(retained, LEAST_RETAINED))
    last = directory.latest_commit()
    manager.load(BEFORE_THE_FIRST if last is None else last)
    # A writer that is started again still has the steps of its earlier run.
    each_batch.before = [*(s for s in each_batch.before if not _is_ours(s)), manager.before]
    each_batch.after = [*(s for s in each_batch.after if not _is_ours(s)), manager.after]
    return manager


def _is_ours(step: BatchStep) -> bool:
    return isinstance(getattr(step, "__self__", None), StateManager)


class StateManager:
    """Manages the states of one query.

    `before` and `after` run inside its batches, `load` before its first batch or in one. `operators` and
    `as_of` may be called from any thread.

    `failure` is the error with which the state failed a batch, else None. Spark's own exception does not name
    the cause.
    """

    sizes: ClassVar[dict[str, int]] = {}  # by query, for all queries of this driver: one record contains all

    def __init__(
        self,
        query: str,
        directory: CheckpointDir,
        states: Sequence[State],
        assigned: Mapping[str, Sequence[str]],
        retained: int,
    ) -> None:
        self.failure: StreamJobError | None = None
        self._query = query
        self._files: HadoopFiles = directory.files
        self._folder = f"{directory.uri}/{formats.FOLDER}"
        self._states = tuple(states)
        self._retained = retained
        self._initial: Entries = {s.name: tuple(assigned.get(s.name, s.hold())) for s in states}
        self._numbers: set[int] = set()  # batch numbers of the state files
        self._batch = BEFORE_THE_FIRST
        self._saved: Entries = {}  # in the newest file
        self._entries: Entries = {}  # after `_batch`

    def operators(self, finished: bool) -> tuple[OperatorRecord, ...]:
        return tuple(OperatorRecord(s.name, s.kind, s.name, finished) for s in self._states)

    def as_of(self, batch: int | None) -> Entries:
        """The states after a committed batch, from storage; initial entries if a state never changed."""
        found = self._read(self._list(), BEFORE_THE_FIRST if batch is None else batch)
        return {name: found.get(name, begun) for name, begun in self._initial.items()}

    def load(self, batch: int) -> None:
        """Show the script the state after `batch`."""
        self._numbers = self._list()
        self._saved = self._read(self._numbers, batch)
        self._entries = {**self._initial, **self._saved}
        self._batch = batch
        self.sizes[self._query] = formats.size(self._entries)
        for name in self._entries.keys() - self._initial.keys():
            log.info("stage %s: state %s is declared no more; it is kept as it is", self._query, name)
        for one in self._states:
            one.open(self._entries[one.name])
            one.close()

    def before(self, batch: int) -> None:
        """Called before the script's function: give it the state after the previous batch."""
        with _Noting(self):
            if self._batch != batch - 1:
                self.load(batch - 1)
            for one in self._states:
                one.open(self._entries[one.name])

    def after(self, batch: int) -> None:
        """Called after the script's function: persist its changes. An exception fails the batch.

        :raises StateTooLarge: the states of all queries exceed the limit.
        :raises StorageError: the state cannot be written.
        """
        entries = {**self._entries, **{s.name: s.close() for s in self._states}}
        with _Noting(self):
            if entries != self._saved and (self._saved or any(entries.values())):
                self._refuse_too_large(entries)
                self._write(batch, entries)
                self._saved = entries
            elif batch in self._numbers:
                self._delete(batch)  # left by an attempt that changed the state and died before the commit
        self._entries, self._batch = entries, batch

    def _refuse_too_large(self, entries: Entries) -> None:
        self.sizes[self._query] = formats.size(entries)
        total = sum(self.sizes.values())
        if total > formats.SIZE_LIMIT:
            raise StateTooLarge(
                f"the driver-side state of query {self._query!r} has grown to {self.sizes[self._query]} "
                f"bytes, that of the whole job to {total}: more than the {formats.SIZE_LIMIT} bytes that a "
                "job may keep",
                remedy="Keep only small things in it; what grows with the data belongs in Spark's state or "
                "in a store",
            )

    def _write(self, batch: int, entries: Entries) -> None:
        if batch in self._numbers:
            self._delete(batch)
        self._files.write_new(self._uri(batch), formats.dumps(batch, entries))
        self._numbers.add(batch)
        try:
            for old in formats.superfluous(self._numbers, batch, self._retained):
                self._delete(old)
        except StorageError as e:
            log.warning("stage %s: an old file of its state stays: %s", self._query, e)

    def _delete(self, batch: int) -> None:
        self._files.delete(self._uri(batch))
        self._numbers.discard(batch)

    def _read(self, numbers: set[int], batch: int) -> Entries:
        newest = formats.newest(numbers, batch)
        if newest is None:
            return {}
        return formats.loads(self._files.read_bytes(self._uri(newest), formats.READ_LIMIT), self._uri(newest))

    def _list(self) -> set[int]:
        try:
            return formats.batches(f.path for f in self._files.list(self._folder))
        except NotFound:
            return set()

    def _uri(self, batch: int) -> str:
        return f"{self._folder}/{formats.file_name(batch)}"


class _Noting:
    """Records an error raised in the block: on its way through the JVM, only a stack trace is left of it."""

    def __init__(self, manager: StateManager) -> None:
        self._manager = manager

    def __enter__(self) -> None:
        self._manager.failure = None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StreamJobError):
            self._manager.failure = error
