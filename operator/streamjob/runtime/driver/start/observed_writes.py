"""What foreachBatch functions were seen to write: the edges to stages that read it, and writes to refuse."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable

from ....protocol.engine import events as ev
from ....protocol.engine.roster import EdgeTooLate
from ....protocol.errors import StreamJobError
from ....protocol.messages.driver_status import Problem
from ....protocol.wording import fill
from ...query import edges
from ...query.run import Run
from ...spark.handles import Table
from ...spark.target import Target
from ..event_loop import Loop
from .connections import Connections
from .skipped_writes import SkippedWrites

log = logging.getLogger("streamjob")


class ObservedWrites:
    """Reports the writes of foreachBatch functions to the coordinator as edges."""

    def __init__(self, loop: Loop, connections: Connections, warn: Callable[[Problem], None]) -> None:
        """:param warn: adds a warning for the user to the status."""
        self._loop = loop
        self._connections = connections
        self._warn = warn
        self._known: set[tuple[str, str]] = set()  # (reader, writer)
        self._writers: dict[tuple[str, str], str] = {}  # see `SkippedWrites`

    def watch(self, run: Run) -> None:
        """Observe a run that is about to start."""
        if run.each_batch is not None and run.ends.sink is None:
            run.each_batch.on_write = functools.partial(self._wrote, run, SkippedWrites(run, self._writers))

    def entered(self, run: Run, upstream: Iterable[str]) -> None:
        """Declare the edges of a run that has just entered, beside those from its `upstream`.

        Since it looked for them, another stage may have entered, or its function may have written for the
        first time. Neither could see this one.
        """
        with self._loop.lock:
            self._known.update((run.uid, writer) for writer in upstream)
            for writer in self._connections.writers_of(run):
                self._declare(run.uid, writer)
            self._declare_to_readers(run)

    def _wrote(
        self, run: Run, skipped: SkippedWrites, target: Target, table: Table | None, certain: bool
    ) -> None:
        """The function is about to write, or another one, if it is not certain. Called where it writes."""
        if certain:
            skipped.refuse_shared(target, table)
        if certain or _has_number(run, target):
            skipped.refuse(target, table)
        try:
            seen = edges.writes_of(target, table, run.files.canonical)
        except StreamJobError as e:  # Spark refuses the write with an error of its own
            log.debug("stage %s: %s", run.task, e)
            return
        with self._loop.lock:
            ends = run.ends.with_writes(*seen)
            if ends != run.ends:
                run.wrote(ends)
                self._declare_to_readers(run)

    def _declare_to_readers(self, run: Run) -> None:
        for reader in self._connections.readers_of(run):
            self._declare(reader, run.uid)

    def _declare(self, reader: str, writer: str) -> None:
        if (reader, writer) in self._known:
            return
        self._known.add((reader, writer))
        (first, *_) = self._loop.runs.of(reader)
        own = self._connections.has_own_sources(reader, first.ends)
        try:
            self._loop.take(ev.EdgeDeclared(reader, writer, own_sources=own))
        except EdgeTooLate:
            self._warn(not_read(reader, writer))
        except StreamJobError as e:  # a circle
            log.warning("stage %s reads what stage %s writes, but %s", reader, writer, e.message)
        else:
            log.info("stage %s reads what stage %s writes", reader, writer)


def _has_number(run: Run, target: Target) -> bool:
    """Whether the write has the number of the run's batch, as idempotent writes to Delta have."""
    function = run.each_batch
    return function is not None and target.options.get("txnversion") == str(function.batch)


def not_read(reader: str, writer: str) -> Problem:
    """The warning for a writer whose function writes where a reader reads for the first time when that reader
    has been flushed: before, nothing has shown that the two are connected.
    """
    text = (
        f"query {reader!r} has been flushed, and only now query {writer!r} writes what it reads, for the "
        f"first time: {reader!r} does not read it"
    )
    remedy = fill(
        f"Declare the edge in the script: job.edge({writer!r}, {reader!r}). To have the rows read now, "
        "<new-job> <and-allow-drained>"
    )
    log.warning("%s. %s", text, remedy)
    return Problem(EdgeTooLate.reason, text, remedy)
