"""Something happens at each moment of what is done to files, one after the other: a kill, another process."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from streamjob.storage.hadoop import CopiedFile

from .localfiles import LocalFiles

OPERATIONS = ("list", "read_bytes", "write_new", "copy", "delete", "exists", "sha256")


class Killed(BaseException):
    """No handler of errors may hold it up."""


class Interrupted(LocalFiles):
    """Does something just before one of its operations."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.what: Callable[[], object] = kill
        self.happened_before = ""  # the name of that operation

    def arm(self, at: int, what: Callable[[], object]) -> None:
        """Before operation number `at` from here on, from 0."""
        self.left, self.what = at, what

    def disarm(self) -> bool:
        """Whether it has happened."""
        happened, self.left = self.left == -1, None
        return happened

    def copy(self, source: str, target: str) -> CopiedFile:
        """What happens in the middle of it finds half a file."""
        data, place = self.read_bytes(source), self._path(target)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data[: len(data) // 2])
        return super().copy(source, target)

    def __getattribute__(self, name: str) -> Any:
        if name in OPERATIONS and self.left is not None and self.left >= 0:
            self.left -= 1
            if self.left == -1:
                self.happened_before = name
                self.what()
        return super().__getattribute__(name)


def kill() -> None:
    raise Killed


def each_moment(run: Callable[[int], bool]) -> int:
    """Run for each operation until it happens at none; how many there were."""
    return next(at for at in itertools.count() if not run(at))
