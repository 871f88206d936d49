"""A script that has started no query in this epoch: its job may end with the checkpoint that it was restored
from. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....protocol.messages.commands import Mode, TerminationRequest
from ....protocol.messages.driver_config import Restore
from ....protocol.restore.recovery import left_behind
from .overtime import SCRIPT_END_GRACE


def why_needed(restore: Restore, mode: Mode | None) -> str | None:
    """Why the job cannot end before its script has started a query; None if it can.

    A stop leaves the job as it was, if that was stopped, too. After a crash only queries can commit what
    sinks have prepared, and record what has run since the checkpoint. Whatever else ends the job needs every
    query that has something left.

    :param mode: how the job is asked to end; None: its script has ended.
    """
    record = restore.latest
    stages = record.stages if record is not None else ()
    if mode is Mode.STOP:
        stopped = restore.exact and not (record is not None and record.uncommitted)
        return None if stopped else "only queries can save what an earlier driver has left"
    if not stages:
        return "the job has no checkpoint of its own"
    left = left_behind(stages, exact=restore.exact)
    return f"the checkpoint has something left of {', '.join(map(repr, left))}" if left else None


@dataclass
class Patience:
    """With a job that is asked to end before its first query: its script may be about to start it."""

    _request_id: str | None = None
    _since: float = 0.0

    def is_over(self, request: TerminationRequest | None, now: float) -> bool:
        """Whether the script has had its time: a third of the request's, at most `SCRIPT_END_GRACE`.

        :param request: None if there is none, or a query has started.
        :param now: seconds, on any clock that does not go back.
        """
        if request is None:
            self._request_id = None
            return False
        if request.request_id != self._request_id:
            self._request_id, self._since = request.request_id, now
        limit = SCRIPT_END_GRACE if request.timeout is None else min(SCRIPT_END_GRACE, request.timeout / 3)
        return now - self._since > limit
