"""One stage: the query that a script started, where its checkpoint lies, and the ways to end it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from ..protocol.records import OperatorRecord, StageRecord, TaskRecord
from .boundary import stop_at_boundary
from .checkpointdir import CheckpointDir
from .drain import DrainResult, run_max_watermark_batch, write_max_watermark
from .files import HadoopFiles
from .internals import Internals
from .progress import rows_per_second, state_rows, watermark

log = logging.getLogger("streamjob")

UNNAMED = "main"  # the uid of a job's only query if the script gave it no name


@dataclass(frozen=True)
class Engine:
    """What every stage of a driver shares. `internals` is None for a Spark version that is not known."""

    files: HadoopFiles
    internals: Internals | None
    jvm: Any


@dataclass(frozen=True)
class Figures:
    """What the query's last progress said; for people."""

    batch: int | None = None
    watermark: str | None = None
    rows_per_second: float | None = None
    state_rows: int | None = None
    operators: tuple[OperatorRecord, ...] = ()


class Stage:
    """A stage of one task (parallelism 1).

    :param start: starts the writer again as the script did, with another trigger: `once` only.
    :param query: None if the stage was drained by an earlier driver and has nothing to run.
    """

    def __init__(
        self, uid: str, engine: Engine, directory: CheckpointDir, start_once: Callable[[], StreamingQuery]
    ) -> None:
        self.uid = uid
        self.directory = directory
        self.query: StreamingQuery | None = None
        self.failure: Exception | None = None
        self.over = threading.Event()  # closed, failed or abandoned: what the script waits for
        self._engine = engine
        self._start_once = start_once
        self.figures = Figures()

    @property
    def files(self) -> HadoopFiles:
        return self._engine.files

    def stop_at_boundary(self, on_wait: Callable[[str], None]) -> int | None:
        """Let the running batch commit and start no other; the last committed batch, None if there was none.

        :raises QueryFailed: the query died of an error of its own.
        """
        if self.query is None:
            return self.directory.latest_commit()
        boundary = stop_at_boundary(
            self.query,
            self.files,
            self._engine.internals,
            on_wait=on_wait,
            finish_pending=self._start_once,
        )
        log.info(
            "stage %s: at the boundary after batch %s in %.3f s, %s",
            self.uid,
            boundary.batch,
            boundary.seconds,
            boundary.how.value,
        )
        return boundary.batch

    def fire_max_watermark(self) -> DrainResult | None:
        """Fire every event-time timer; None if there is nothing that could fire. May be called again after a crash.

        :raises QueryFailed: the batch failed; it is run again by the next attempt.
        """
        batch = write_max_watermark(self.directory, self._engine.internals)
        if batch is None:
            return None
        return run_max_watermark_batch(self._start_once, self.directory, batch)

    def record(self, finished: bool) -> StageRecord:
        """The stage's part of a checkpoint. Only at a boundary. :param finished: its operators' `finish()` ran."""
        batch = self.directory.boundary()
        task = TaskRecord(0, self.directory.uri, batch)
        return StageRecord(self.uid, (task,), self.operators(finished))

    def operators(self, finished: bool) -> tuple[OperatorRecord, ...]:
        return tuple(OperatorRecord(o.uid, o.kind, o.name, finished) for o in self.directory.operators())

    def sample(self) -> None:
        """Renew the figures; one call into the JVM, more only until the operators are known."""
        progress = self.query.lastProgress if self.query is not None else None
        if progress is None:
            return
        operators = self.figures.operators or self.operators(finished=False)
        self.figures = Figures(
            progress["batchId"],
            watermark(progress),
            rows_per_second(progress),
            state_rows(progress),
            operators,
        )
