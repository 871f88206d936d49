"""A job whose script has started no query in this epoch: its stages are those of the restored checkpoint."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from ....protocol.engine import events as ev
from ....protocol.graph import task_id
from .. import threads
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
        self._since: float | None = None  # when a request to end the job began to wait, or the last attempt
        self._attempts = False  # whether a thread looks whether the job can end
        self._refused: str | None = None  # id of the request that has to wait for the script
        self._deciding = threading.RLock()  # the script may end while that thread looks

    def is_the_end(self) -> bool:
        """Whether every query had finished before, so that nothing is left to start.

        The job then has the tasks of the restored checkpoint, and its end is that of the script.

        :raises StreamJobError: the restored checkpoint cannot be read.
        """
        work = self._loop.work
        if not work.carried.are_all:
            return False
        with self._deciding:
            files = work.checkpoints.without_query()
            self.left = work.carried.left(files)
            if self.left:
                return False
            records = work.carried.records(files, ())
            with self._loop.lock:
                if not self._has_begun():
                    self._begins()
                    for stage in records:
                        for task in stage.tasks:
                            name = task_id(stage.uid, task.index, len(stage.tasks))
                            self._loop.take(ev.TaskRestoredFinished(name, (), task.batch))
        return True

    def look(self, now: float) -> None:
        """End the job if it was asked to end long ago and the script still starts nothing. Call it often: it
        waits for nothing, because a thread of its own reads what would be resumed.

        A stop takes the stages as they were restored. A drain needs its queries, unless nothing is left.

        :param now: seconds, on any clock that does not go back.
        """
        request = self._requests.request
        if request is None or self._gate.closed or self._has_begun():
            self._since = None
            return
        if self._since is None:
            self._since = now
        if now - self._since <= PATIENCE or self._attempts or request.request_id == self._refused:
            return
        self._since, self._attempts = now, True
        threads.start(self._attempt, "streamjob-without-query", request.request_id)

    def _attempt(self, request_id: str) -> None:
        try:
            with self._deciding:
                try:
                    if not (self.stops() if self._requests.stops else self._drains()):
                        self._refused = request_id  # what it has restored stays the same
                finally:
                    if not self._has_begun():
                        self._loop.work.checkpoints.close_files()
        except Exception as e:  # no JVM can be made, or the storage is gone: tried again
            log.warning("the script has started no query, and what it would resume cannot be read: %r", e)
        finally:
            self._attempts = False

    def _drains(self) -> bool:
        if self.is_the_end():
            self._settle()
            return True
        log.warning("the drain waits: the script has started no query that could be drained")
        return False

    def stops(self) -> bool:
        """Stop the job with the stages that it has restored, if it was asked to stop and they are whole.

        :returns: whether it stops.
        :raises StreamJobError: the restored checkpoint cannot be read.
        """
        if not self._requests.stops or self._gate.closed:
            return False
        with self._deciding:
            carried, files = self._loop.work.carried, self._loop.work.checkpoints.without_query()
            if carried.owes(files):
                log.warning(
                    "the stop waits: its script has started no query that could commit what is prepared"
                )
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
