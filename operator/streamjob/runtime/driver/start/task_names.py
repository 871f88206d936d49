"""Which task a query that starts is, and which queries are about to start."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ....job import ONLY_QUERY
from ....protocol.graph import TaskName
from ...query.definition import Definition
from ...query.run import Run
from ...query.runs import Runs
from ...spark.engine import Engine
from ...spark.stream_writer import WriterOptions
from ...startup import naming
from ...startup.restore_point import RestorePoints
from ...startup.sharding.declared_shards import DeclaredStages


class TaskNames:
    """Gives each query its task. Thread-safe.

    :param runs: the last run of each task.
    """

    def __init__(self, runs: Runs[Run], declared: DeclaredStages, points: RestorePoints) -> None:
        self._runs = runs
        self._declared = declared
        self._points = points
        self._lock = threading.Lock()
        # The tasks that are about to start, and whether each is the unnamed query.
        self._starting: dict[str, bool] = {}

    @property
    def busy(self) -> bool:
        return bool(self._starting)

    @contextmanager
    def named(self, said: WriterOptions, unnamed: Definition | None, engine: Engine) -> Iterator[TaskName]:
        """The query's task, which no other query can start meanwhile.

        :param unnamed: the query, if it has neither a name nor a checkpointLocation.
        :raises StreamJobError: as `naming.task_name`.
        """
        location = engine.files.qualify(said.location) if said.location else None
        is_unnamed = unnamed is not None
        with self._lock:
            elsewhere = self._starting.get(ONLY_QUERY) is False or (
                is_unnamed and self._points.is_elsewhere(engine.files, ONLY_QUERY)
            )
            name = naming.task_name(
                said,
                location,
                unnamed,
                dict(self._runs),  # at once: another query may start
                self._declared,
                self._points.locations(engine.files),
                engine,
                elsewhere=elsewhere,
            )
            if self._starting.get(name.task) and is_unnamed:
                raise naming.QueryNameMissing(naming.SECOND, remedy=naming.EACH_A_NAME)
            if name.task in self._starting:
                raise naming.DuplicateStage(
                    f"Cannot start query with name {name.name} as a query with that name is already starting",
                    remedy="Give each query a queryName of its own",
                )
            self._starting[name.task] = is_unnamed
        try:
            yield name
        finally:
            with self._lock:
                self._starting.pop(name.task)
