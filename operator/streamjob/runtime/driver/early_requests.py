"""Requests that come while the script still starts its queries: they are kept until it has started all.

Until then the edges are not all known: a query that is drained too early never reads what its upstream has
left, and a savepoint would not be one of the whole job. An unfinished termination of an earlier epoch is kept
the same way.
"""

from __future__ import annotations

import time

from ...protocol.coordinator import TerminationConflict
from ...protocol.messages import SavepointRequest, TerminationRequest

# Seconds. A script that never waits for a query without a timeout does not show that it has started all its
# queries. It counts as having done so when it has started no new query for this long. A request that came
# early is carried out then, or this long after it came (after the first query, if that starts later).
PATIENCE = 30.0
# Seconds. The same, when the job is asked to end and all stages of its checkpoint have started. Also the time
# that a drain waits for the script to start a failed query again.
HURRY = 5.0


class EarlyRequests:
    """Guarded by the lock of the event loop.

    :param termination: the kept termination, None if there is none.
    """

    def __init__(self, termination: TerminationRequest | None) -> None:
        self.termination = termination
        self._savepoint: SavepointRequest | None = None
        self._since: float | None = (
            None  # when the termination began to wait, on the clock of time.monotonic()
        )
        self._settled = False

    def keep_termination(self, request: TerminationRequest) -> bool:
        """Keep a termination, unless the script has started all its queries.

        :returns: whether it is kept.
        :raises TerminationConflict: another termination is kept.
        """
        if self.termination is not None and self.termination.request_id != request.request_id:
            raise TerminationConflict(
                f"termination {self.termination.request_id} comes first", remedy="Wait for it"
            )
        if not self._settled:
            self.termination = request
        return not self._settled

    def keep_savepoint(self, request: SavepointRequest) -> bool:
        """Keep a savepoint request, unless the script has started all its queries.

        :returns: whether it is kept.
        :raises TerminationConflict: a termination is kept, with a savepoint of its own.
        """
        if self.termination is not None:
            raise TerminationConflict(
                f"termination {self.termination.request_id} comes first", remedy="Use the savepoint of it"
            )
        if not self._settled:
            self._savepoint = request
        return not self._settled

    def settle(self) -> tuple[TerminationRequest | None, SavepointRequest | None]:
        """The script has started all its queries.

        :returns: what was kept. It is kept no longer.
        """
        self._settled = True
        kept = self.termination, self._savepoint
        self.termination = self._savepoint = None
        return kept

    def patience_is_over(self, since_last_start: float, *, has_started: bool, awaits_tasks: bool) -> bool:
        """Whether the script now counts as having started all its queries, though it has not shown it.

        :param since_last_start: seconds since a new query began to start.
        :param has_started: a query has started.
        :param awaits_tasks: stages of the job's checkpoint have not started.
        """
        if self._settled:
            return False
        if self.termination and self._since is None and has_started:
            self._since = time.monotonic()
        waited = time.monotonic() - self._since if self._since else 0.0
        patience = HURRY if self.termination and not awaits_tasks else PATIENCE
        return since_last_start > patience or waited > PATIENCE
