"""On-demand savepoints of a running job: the progress of the last one, and which attempts are aborted.

The coordinator may abort an attempt while a thread writes it, or between two attempts. This module
synchronizes the two, so that exactly one of them deletes what was written, and no unreported savepoint is
left on storage.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any, ClassVar

from ...protocol.errors import StreamJobError
from ...protocol.formats.records import CheckpointRecord
from ...protocol.messages.driver_status import DriverStatus, Problem, SavepointStatus
from .status_board import StatusBoard


class SavepointAborted(StreamJobError):
    """A savepoint of a running job was aborted: it took too long, or the job was asked to end.

    The job itself does not fail.
    """

    reason: ClassVar[str] = "SavepointAborted"


class LiveSavepoints:
    """The state of on-demand savepoints. Thread-safe. The number of its checkpoint identifies an attempt."""

    def __init__(self, board: StatusBoard) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._writing: set[int] = set()
        self._aborted: set[int] = set()

    def begin(self, request_id: str) -> None:
        """A savepoint is requested. A repeated request changes nothing."""
        self._board.change(
            lambda status: {} if _of(status, request_id) else {"savepoint": SavepointStatus(request_id)}
        )

    def say(self, request_id: str, progress: str) -> None:
        self._update(request_id, progress=progress)

    def stuck(self, request_id: str, problem: Problem) -> None:
        """An attempt failed. Another one follows."""
        self._update(request_id, problem=problem)

    def completed(self, request_id: str, record: CheckpointRecord) -> None:
        """The savepoint is durable; the status reports it to the controller."""
        self._update(request_id, completed=record, progress="", problem=None, over=True)

    def abort(self, request_id: str, reason: str) -> None:
        """The request is aborted.

        The status gets the last problem as well as `reason`: why an attempt failed says more than that time
        ran out.
        """
        known = self._of(request_id)
        why = f": {known.problem.message}" if known is not None and known.problem is not None else ""
        remedy = known.problem.remedy if known is not None and known.problem is not None else ""
        problem = Problem("SavepointAborted", f"savepoint {request_id}: {reason}{why}", remedy)
        self._update(request_id, progress="", problem=problem, over=True)

    def is_over(self, request_id: str) -> bool:
        known = self._of(request_id)
        return known is None or known.over

    # --- attempts -------------------------------------------------------------------------------------------

    def refuse_unwanted(self, number: int) -> None:
        """Check that the attempt is still wanted.

        :raises SavepointAborted: it was aborted.
        """
        with self._lock:
            aborted = number in self._aborted
        if aborted:
            raise SavepointAborted(f"checkpoint {number} is not wanted any more")

    def enter(self, number: int) -> None:
        """A thread begins to write the attempt.

        :raises SavepointAborted: it was aborted.
        """
        self.refuse_unwanted(number)
        with self._lock:
            self._writing.add(number)

    def leave(self, number: int) -> bool:
        """The thread has ended its attempt, successfully or not.

        :returns: whether the attempt was aborted meanwhile; the caller then deletes what was written.
        """
        with self._lock:
            self._writing.discard(number)
            return number in self._aborted

    def drop(self, number: int) -> bool:
        """The attempt is aborted.

        :returns: True if no thread is writing it, so the caller deletes what is there. Otherwise the writing
            thread does.
        """
        with self._lock:
            self._aborted.add(number)
            return number not in self._writing

    def _of(self, request_id: str) -> SavepointStatus | None:
        return _of(self._board.status, request_id)

    def _update(self, request_id: str, **changes: Any) -> None:
        """Change the request's entry, unless another request has replaced it."""

        def changed(status: DriverStatus) -> dict[str, Any]:
            known = _of(status, request_id)
            return {} if known is None else {"savepoint": replace(known, **changes)}

        self._board.change(changed)


def _of(status: DriverStatus, request_id: str) -> SavepointStatus | None:
    known = status.savepoint
    return known if known is not None and known.request_id == request_id else None
