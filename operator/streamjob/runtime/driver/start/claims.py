"""What each query of the script has to itself. A query that wants the same is refused."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ...query.places.claim import Claim
from ...query.run import Run
from ...query.runs import Runs
from ...startup.checks.neighbours import refuse_hidden_rows, refuse_shared_place


class Claims:
    """Thread-safe: of two queries that start at once, one is refused.

    :param runs: the last run of each task.
    """

    def __init__(self, runs: Runs[Run]) -> None:
        self._runs = runs
        self._by_task: dict[str, Claim] = {}
        self._lock = threading.Lock()

    @contextmanager
    def claimed(self, mine: Claim) -> Iterator[None]:
        """The query starts in the block. If that fails, it has claimed nothing.

        :raises StreamJobError: as `refuse_shared_place` and `refuse_hidden_rows`.
        """
        with self._lock:
            refuse_shared_place(mine, self._by_task.values(), self._has_ended)
            refuse_hidden_rows(mine, self._runs.all())
            before = self._by_task.get(mine.task)
            self._by_task[mine.task] = mine
        try:
            yield
        except BaseException:
            with self._lock:
                if before is None:
                    del self._by_task[mine.task]
                else:
                    self._by_task[mine.task] = before
            raise

    def _has_ended(self, task: str) -> bool:
        run = self._runs.get(task)
        return run is not None and run.over.is_set()
