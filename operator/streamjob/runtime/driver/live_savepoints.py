"""The savepoints that are asked for while the job runs: how far the last one is, and which attempts nobody waits for any more.

The coordinator decides that an attempt is given up while a thread writes it, or between two of them. Here both meet, so that
exactly one deletes what was written: no savepoint is left that nobody was told of.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import ClassVar

from ...protocol.errors import StreamJobError
from ...protocol.messages import Problem, SavepointStatus
from ...protocol.records import CheckpointRecord
from .status_board import StatusBoard


class SavepointGivenUp(StreamJobError):
    """A savepoint of a running job was given up: it took too long, or the job is asked to end. The job itself goes on."""

    reason: ClassVar[str] = "SavepointGivenUp"


class AskedSavepoints:
    """Thread-safe. Attempts go by the number of their checkpoint."""

    def __init__(self, board: StatusBoard) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._writing: set[int] = set()
        self._given_up: set[int] = set()

    def begin(self, request_id: str) -> None:
        """It is asked for, perhaps again."""
        if self._of(request_id) is None:
            self._board.update(savepoint=SavepointStatus(request_id))

    def say(self, request_id: str, progress: str) -> None:
        self._update(request_id, progress=progress)

    def stuck(self, request_id: str, problem: Problem) -> None:
        """An attempt has failed; another one follows."""
        self._update(request_id, problem=problem)

    def completed(self, request_id: str, record: CheckpointRecord) -> None:
        """It is durable, and announced."""
        self._update(request_id, completed=record, progress="", problem=None, over=True)

    def give_up(self, request_id: str, reason: str) -> None:
        """Nothing comes of the request. What kept it from being written is more telling than that time ran out."""
        known = self._of(request_id)
        why = f": {known.problem.message}" if known is not None and known.problem is not None else ""
        remedy = known.problem.remedy if known is not None and known.problem is not None else ""
        problem = Problem("SavepointGivenUp", f"savepoint {request_id}: {reason}{why}", remedy)
        self._update(request_id, progress="", problem=problem, over=True)

    def is_over(self, request_id: str) -> bool:
        known = self._of(request_id)
        return known is None or known.over

    # --- attempts ---------------------------------------------------------------------------------------------

    def refuse_unwanted(self, number: int) -> None:
        """:raises SavepointGivenUp: nobody waits for this attempt any more."""
        with self._lock:
            given_up = number in self._given_up
        if given_up:
            raise SavepointGivenUp(f"checkpoint {number} is not wanted any more")

    def enter(self, number: int) -> None:
        """A thread begins to write it. :raises SavepointGivenUp: see there."""
        self.refuse_unwanted(number)
        with self._lock:
            self._writing.add(number)

    def leave(self, number: int) -> bool:
        """It has come to its end, whatever that is. True: it was given up meanwhile."""
        with self._lock:
            self._writing.discard(number)
            return number in self._given_up

    def drop(self, number: int) -> bool:
        """It is given up. True: nobody writes it now, so the caller deletes what is there; else whoever writes it does."""
        with self._lock:
            self._given_up.add(number)
            return number not in self._writing

    def _of(self, request_id: str) -> SavepointStatus | None:
        known = self._board.status.savepoint
        return known if known is not None and known.request_id == request_id else None

    def _update(self, request_id: str, **changes: object) -> None:
        if (known := self._of(request_id)) is not None:
            self._board.update(savepoint=replace(known, **changes))  # type: ignore[arg-type]
