"""The runs of the job."""

from __future__ import annotations

import threading
from typing import Protocol, TypeVar


class Ending(Protocol):
    """What a registry needs of a run. `run.Run` implements it."""

    uid: str
    over: threading.Event


R = TypeVar("R", bound=Ending)


class Runs(dict[str, R]):
    """The last run of each task, by the task's id.

    Other threads start queries at any time. So whoever does not hold the driver's lock takes a list, which is
    made at once.
    """

    def all(self) -> list[R]:
        return list(self.values())

    def active(self) -> list[R]:
        """Those that are not over."""
        return [run for run in self.all() if not run.over.is_set()]

    def of(self, *uids: str) -> list[R]:
        """Those of the stages with these uids."""
        return [run for run in self.all() if run.uid in uids]

    def others(self, uid: str) -> list[R]:
        """Those of other stages."""
        return [run for run in self.all() if run.uid != uid]
