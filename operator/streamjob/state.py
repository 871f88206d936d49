"""Driver-side state: small values that a foreachBatch function keeps from batch to batch.

This module is plain Python. Without the runtime, `python app.py` keeps the state in memory only. With the
runtime (`runtime/query/driver_state.py`), changes made in batch N are kept if and only if batch N is
committed, and a batch that is run again starts from the state after the previous batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from .protocol.errors import StreamJobError
from .protocol.formats.records import OperatorKind

_OPERATORS = re.compile(r"sink|splits|(source|state)-[0-9]+")  # uids of a query's own operators


class StateNameTaken(StreamJobError):
    reason: ClassVar[str] = "StateNameTaken"


class StateOutsideBatch(StreamJobError):
    """State was changed outside a batch: such a change could be lost or applied twice."""

    reason = "StateChangedOutsideBatch"


class State:
    """A list of strings that only its query's foreachBatch function changes. The script interprets them.

    The entries present when the query starts are the initial state. A checkpoint that contains the state
    replaces them.
    """

    def __init__(self, name: str, query: str, kind: OperatorKind) -> None:
        self.name = name
        self.query = query
        self.kind = kind
        self._entries: list[str] = []
        self._initial: tuple[str, ...] | None = None
        self._fixed = False

    def append(self, entry: str) -> None:
        """Add one entry.

        :raises StateOutsideBatch: the query has started, and its foreachBatch function is not running.
        """
        self.extend((entry,))

    def extend(self, entries: Iterable[str]) -> None:
        """Add several entries.

        :raises StateOutsideBatch: as `append`.
        """
        self._change([*self._entries, *_checked(entries)])

    def replace(self, entries: Iterable[str]) -> None:
        """Replace all entries.

        :raises StateOutsideBatch: as `append`.
        """
        self._change(_checked(entries))

    def clear(self) -> None:
        """Remove all entries.

        :raises StateOutsideBatch: as `append`.
        """
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
                f"state {self.name!r} of query {self.query!r} is changed outside of its foreachBatch "
                "function: the change would belong to no batch",
                remedy="Change it inside the function; what it begins with is set before the query starts",
            )
        self._entries = entries

    # --- for the runtime ------------------------------------------------------------------------------------

    @property
    def held(self) -> bool:
        """Whether the runtime manages it."""
        return self._initial is not None

    def hold(self) -> tuple[str, ...]:
        """From now on, allow changes only between `open` and `close`.

        :returns: the initial entries, which apply if no checkpoint contains the state.
        """
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
    """The state of this name. Repeated calls return the same object.

    :raises StateNameTaken: the name is empty or an operator's, or the state is already declared with another
        kind.
    """
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
    """All states declared for the query."""
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
