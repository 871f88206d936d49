"""A job whose script has started no query in this epoch: its stages are those of the restored checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable

from ....protocol.engine import events as ev
from ....protocol.graph import task_id
from ..event_loop import Loop
from ..requests import PATIENCE, Requests
from .gate_keeper import GateKeeper

log = logging.getLogger("streamjob")


class WithoutQuery:
    """Ends such a job: when its script has ended, or when the job is asked to end and the script runs on.

    A prepared driver does not know its checkpoint before the gate is open.

    :param has_begun: as `Driver.has_begun`.
    :param settle: as `Driver.settle`.
    """

    def __init__(
        self,
        loop: Loop,
        requests: Requests,
        gate: GateKeeper,
        has_begun: Callable[[], bool],
        begins: Callable[[], None],
        settle: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._requests = requests
        self._gate = gate
        self._has_begun = has_begun
        self._begins = begins
        self._settle = settle
        self.left: list[str] = []  # queries of the restored checkpoint, if they are why it is not the end
        self._since: float | None = None  # when a request to end the job began to wait, or was last refused

    def is_the_end(self) -> bool:
        """Whether every query had finished before, so that nothing is left to start.

        The job then has the tasks of the restored checkpoint, and its end is that of the script.

        :raises StreamJobError: the restored checkpoint cannot be read.
        """
        work = self._loop.work
        if not work.carried.are_all:
            return False
        files = work.checkpoints.without_query()
        self.left = work.carried.left(files)
        if self.left:
            return False
        with self._loop.lock:
            self._begins()
            for stage in work.carried.records(files, ()):
                for task in stage.tasks:
                    name = task_id(stage.uid, task.index, len(stage.tasks))
                    self._loop.take(ev.TaskRestoredFinished(name, (), task.batch))
        return True

    def look(self, now: float) -> None:
        """End the job if it was asked to end long ago and the script still starts nothing. Call it often.

        A stop takes the stages as they were restored. A drain needs its queries, unless nothing is left.

        :param now: seconds, on any clock that does not go back.
        """
        if self._requests.request is None or self._gate.closed or self._has_begun():
            self._since = None
            return
        if self._since is None:
            self._since = now
        if now - self._since <= PATIENCE:
            return
        self._since = now
        try:
            if self._requests.stops:
                self.stops()
            elif self.is_the_end():
                self._settle()
            else:
                log.warning("the drain waits: the script has started no query that could be drained")
        except Exception as e:  # no session can be made, or the storage is gone: tried again
            log.warning("the script has started no query, and what it would resume cannot be read: %r", e)

    def stops(self) -> bool:
        """Stop the job with the stages that it has restored, if it was asked to stop and they are whole.

        :returns: whether it stops.
        :raises StreamJobError: the restored checkpoint cannot be read.
        """
        if not self._requests.stops or self._gate.closed:
            return False
        carried, files = self._loop.work.carried, self._loop.work.checkpoints.without_query()
        if carried.owes(files):
            log.warning("the stop waits: its script has started no query that could commit what is prepared")
            return False
        if unrecorded := carried.unrecorded(files):
            names = ", ".join(unrecorded)
            log.warning(
                "the stop waits: the script has not started again what ran before a crash (%s)", names
            )
            return False
        with self._loop.lock:
            if not self._has_begun():
                log.info("the script has started no query: the job stops with what it has restored")
                self._begins()
                self._loop.take(ev.AllStarted(none=True))
                self._settle()
        return True
