"""Requests to end the job or to write a savepoint.

Those that come early wait until the queries have started.
"""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from ...protocol.engine import events as ev
from ...protocol.engine.coordinator import TerminationConflict
from ...protocol.messages.commands import Mode, SavepointRequest, TerminationRequest
from ...protocol.messages.driver_config import DriverConfig
from .dispatcher import Dispatcher

log = logging.getLogger("streamjob")

# Seconds. A script that never waits for a query without a timeout does not show that it has started all its
# queries. It counts as having done so when it has started no new query for this long. A request that came
# early is carried out then, or this long after it came (after the first query, if that starts later).
START_GRACE = 30.0
# Seconds. The same, when the job is asked to end and all stages of its checkpoint have started. Also the time
# that a drain waits for the script to start a failed query again.
RESTART_GRACE = 5.0
WAITS = "the script has not started all its queries"


class Requests:
    """No call waits. Whoever changes something holds the lock; everybody may read what was requested.

    :param lock: the driver's.
    :ivar early: a termination that an earlier epoch did not finish, or that came while the script still
        started its queries. It is carried out when all have started: until then the edges are not all known,
        and a query that is drained too early never reads what its upstream has left.
    :ivar settled: the script counts as having started all its queries.
    """

    def __init__(
        self, config: DriverConfig, dispatcher: Dispatcher[Any], lock: AbstractContextManager[object]
    ) -> None:
        self.early: TerminationRequest | None = None
        self.settled = False
        self._early_savepoint: SavepointRequest | None = None
        self._since: float | None = None  # when the early termination began to wait
        self._savepoint_since: float | None = None  # when the early savepoint began to wait
        self._now = 0.0  # when it was looked at last
        self._given_up: set[str] = set()  # ids of savepoints that waited for too long
        self._dispatcher = dispatcher
        self._lock = lock
        self._coordinator = dispatcher.coordinator
        self.carry_over(config)

    def carry_over(self, config: DriverConfig) -> None:
        """Take up the termination that an earlier epoch did not complete, unless one has come since."""
        if self.early is None and config.termination is not None:
            self.early = replace(config.termination, epoch=config.epoch)
            self._dispatcher.take(ev.TerminationAnnounced())

    @property
    def request(self) -> TerminationRequest | None:
        """The termination that was requested, in progress or not, None if there is none."""
        with self._lock:  # `settle` hands it to the coordinator: at no moment is there none
            return self._coordinator.request or self.early

    @property
    def asked_to_end(self) -> bool:
        return self.request is not None

    @property
    def stops(self) -> bool:
        request = self.request
        return request is not None and request.mode is Mode.STOP

    @property
    def drains(self) -> bool:
        request = self.request
        return request is not None and request.mode is Mode.DRAIN

    def terminate(self, request: TerminationRequest) -> None:
        """Begin a termination, or note it until `settle`.

        :raises TerminationConflict: another termination is in progress.
        """
        if self.early is not None and self.early.request_id != request.request_id:
            raise TerminationConflict(
                f"termination {self.early.request_id} comes first", remedy="Wait for it"
            )
        if not self.settled:
            self.early = request
            self._dispatcher.take(ev.TerminationAnnounced())
            return
        log.info("%s requested: %s", request.mode.value.lower(), request.request_id)
        self._dispatcher.take(ev.TerminationRequested(request))

    def savepoint(self, request: SavepointRequest) -> None:
        """Begin an on-demand savepoint, or note it until `settle`.

        :raises TerminationConflict: the job is ending, with a savepoint of its own.
        """
        if self.early is not None:
            raise TerminationConflict(
                f"termination {self.early.request_id} comes first", remedy="Use the savepoint of it"
            )
        savepoints, known = self._dispatcher.live_savepoints, self._early_savepoint
        if not self.settled:
            # A savepoint without the queries that have yet to start would not be one of the whole job.
            savepoints.begin(request.request_id)
            repeated = known is not None and known.request_id == request.request_id
            if not repeated and not savepoints.is_over(request.request_id):
                self._early_savepoint, self._savepoint_since = request, None
            return
        if request.request_id in self._given_up:
            return
        self._dispatcher.take(ev.SavepointRequested(request.request_id, request.savepoint, request.timeout))
        log.info("savepoint requested: %s", request.request_id)

    def all_queries_started(self, left: tuple[str, ...] = ()) -> None:
        """The script waits for its queries, or has ended: take up what came early.

        :param left: as `AllStarted.left`.
        """
        self.settled = True
        self._dispatcher.take(ev.AllStarted(left=left))
        early, self.early = self.early, None
        savepoint, self._early_savepoint = self._early_savepoint, None
        if early is not None:
            self.terminate(early)
        if savepoint is not None:
            waited = 0.0 if self._savepoint_since is None else self._now - self._savepoint_since
            try:
                self.savepoint(replace(savepoint, timeout=max(savepoint.timeout - waited, 0)))
            except TerminationConflict as e:
                self._dispatcher.live_savepoints.abort(savepoint.request_id, e.message)

    def look(self, now: float) -> None:
        """Abort an on-demand savepoint that came early, if it has waited for its queries as long as it may.

        :param now: seconds, on any clock that does not go back.
        """
        early = self._early_savepoint
        if early is None:
            return
        self._now = now
        if self._savepoint_since is None:
            self._savepoint_since = now
            self._dispatcher.live_savepoints.say(early.request_id, WAITS)
        if now - self._savepoint_since > early.timeout:
            self._early_savepoint = None
            self._given_up.add(early.request_id)
            self._dispatcher.live_savepoints.abort(early.request_id, f"its time is over: {WAITS}")

    def patience_is_over(
        self, now: float, since_last_start: float, *, has_started: bool, awaits_tasks: bool
    ) -> bool:
        """Whether the script now counts as having started all its queries, though it has not shown it.

        :param now: seconds, on any clock that does not go back.
        :param since_last_start: seconds since a new query began to start.
        :param has_started: a query has started.
        :param awaits_tasks: stages of the job's checkpoint have not started.
        """
        if self.settled:
            return False
        if self.early and self._since is None and has_started:
            self._since = now
        waited = 0.0 if self._since is None else now - self._since
        patience = RESTART_GRACE if self.early and not awaits_tasks else START_GRACE
        return since_last_start > patience or waited > START_GRACE
