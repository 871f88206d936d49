"""Queries that were probably edited and may be others: they read nothing until all queries have started.

An unnamed query that equals none of the last epoch's continues the state of the only one that is left. If the
script then starts that one as well, it is refused, and nothing of its input has been read.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from ....protocol.errors import StreamJobError
from ...query.deferred_start import DeferredStart
from ...query.task import Stage
from ...spark.handles import java_query
from .. import threads
from ..event_loop import Loop
from .task_names import TaskNames

log = logging.getLogger("streamjob")


class DeferredStarts:
    """Thread-safe.

    :param may_begin: whether a query may still read new data.
    """

    def __init__(self, loop: Loop, names: TaskNames, may_begin: Callable[[], bool]) -> None:
        self._loop = loop
        self._names = names
        self._may_begin = may_begin

    def defer(self, stage: Stage) -> None:
        """Keep the query of a run from beginning."""
        stage.deferred = DeferredStart(functools.partial(self._begin, stage))

    def release(self) -> None:
        """Begin those that are deferred: the script has started all others that could be meant."""
        for start, stage in self._deferred():
            if not self._may_begin():
                return
            try:
                begun = start.begin()
            except Exception as e:  # of Spark or of the storage: the script gets it where it waits
                self._loop.fail(stage, e)
            else:
                if begun:
                    log.info("stage %s begins: the script has started all its queries", stage.task)
                    threads.start(self._loop.watch, f"watch-{stage.task}", stage)
            self._loop.publish()

    def refuse(self, error: StreamJobError) -> None:
        """Fail those that are deferred: the query that is refused may be the one that they were taken for."""
        for start, stage in self._deferred():
            start.give_up()
            if stage.query is None:
                self._loop.fail(stage, error)

    def _deferred(self) -> list[tuple[DeferredStart, Stage]]:
        stages = list(self._loop.stages.values())
        return [(s.deferred, s) for s in stages if s.deferred is not None and s.is_deferred]

    def _begin(self, stage: Stage) -> None:
        self._names.note(stage.engine, stage.uid, stage.noted_likeness)
        stage.query = stage.restart()
        stage.jsq = java_query(stage.query)
