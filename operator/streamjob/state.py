"""Driver-side state: the small things that a foreachBatch function remembers from batch to batch.

Plain Python, and in memory only under `python app.py`. With the runtime (`runtime/query/driver_state.py`) what the function did
to it in batch N is kept exactly if batch N is committed, and a batch that is run again begins with what the one before it left.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from .protocol.errors import StreamJobError
from .protocol.records import OperatorKind

_OPERATORS = re.compile(r"sink|splits|(source|state)-[0-9]+")  # uids of what a query has of its own


class StateNameTaken(StreamJobError):
    reason: ClassVar[str] = "StateNameTaken"


class StateOutsideBatch(StreamJobError):
    """A change that belongs to no batch would be lost, or be there twice."""

    reason = "StateChangedOutsideBatch"


class State:
    """A list of strings that only its query's foreachBatch function changes. What they say is the script's own affair.

    What is in it when the query starts is what the state begins with; a checkpoint that has the state replaces it.
    """

    def __init__(self, name: str, query: str, kind: OperatorKind) -> None:
        self.name = name
        self.query = query
        self.kind = kind
        self._entries: list[str] = []
        self._initial: tuple[str, ...] | None = None
        self._fixed = False

    def append(self, entry: str) -> None:
        """:raises StateOutsideBatch: see there."""
        self.extend((entry,))

    def extend(self, entries: Iterable[str]) -> None:
        """:raises StateOutsideBatch: see there."""
        self._change([*self._entries, *_checked(entries)])

    def replace(self, entries: Iterable[str]) -> None:
        """Only these from now on. :raises StateOutsideBatch: see there."""
        self._change(_checked(entries))

    def clear(self) -> None:
        """:raises StateOutsideBatch: see there."""
        self._change([])

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"<{self.kind.value} {self.name!r} of query {self.query!r}: {self._entries!r}>"

    def _change(self, entries: list[str]) -> None:
        if self._fixed:
            raise StateOutsideBatch(
                f"state {self.name!r} of query {self.query!r} is changed outside of its foreachBatch function: the change "
                "would belong to no batch",
                remedy="Change it inside the function; what it begins with is set before the query starts",
            )
        self._entries = entries

    # --- for the runtime --------------------------------------------------------------------------------------

    @property
    def held(self) -> bool:
        """The runtime keeps it."""
        return self._initial is not None

    def hold(self) -> tuple[str, ...]:
        """Let it change between `open` and `close` only; what it begins with where no checkpoint has it."""
        if self._initial is None:
            self._initial = tuple(self._entries)
        self._fixed = True
        return self._initial

    def open(self, entries: Iterable[str]) -> None:
        self._fixed = False
        self.replace(entries)

    def close(self) -> tuple[str, ...]:
        self._fixed = True
        return tuple(self._entries)


_states: dict[tuple[str, str], State] = {}


def declare(kind: OperatorKind, name: str, query: str) -> State:
    """The state of this name, the same object each time. :raises StateNameTaken: it is something else."""
    if not name or _OPERATORS.fullmatch(name):
        raise StateNameTaken(
            f"state of query {query!r} cannot have the name {name!r}: an operator of the query has it",
            remedy="Choose another name",
        )
    found = _states.setdefault((query, name), State(name, query, kind))
    if found.kind is not kind:
        raise StateNameTaken(
            f"state {name!r} of query {query!r} is declared as {found.kind.value} and as {kind.value}",
            remedy="Give each state a name of its own",
        )
    return found


def of(query: str) -> list[State]:
    """All that was declared for the query."""
    return [s for s in _states.values() if s.query == query]


def every() -> list[State]:
    return list(_states.values())


def _checked(entries: Iterable[str]) -> list[str]:
    if isinstance(entries, str):
        raise TypeError("extend() and replace() take several entries; append() takes one")
    checked = list(entries)
    for entry in checked:
        if not isinstance(entry, str):
            raise TypeError(f"an entry of a state is a string, not {type(entry).__name__}")
    return checked
