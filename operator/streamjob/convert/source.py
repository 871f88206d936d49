"""The object to convert, and the account of what became of each of its fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from ..protocol.errors import StreamJobError

Obj: TypeAlias = dict[str, Any]
Path: TypeAlias = tuple[str | int, ...]
PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
EMPTY: tuple[Any, ...] = (None, {}, [], "")
NOT_KNOWN = "this converter does not know the field"


class Kind(str, Enum):
    """What became of a field. `Decide` is no field of the input: it is a choice that only the user has."""

    DECIDE = "Decide"
    CHANGED = "Changed"
    DROPPED = "Dropped"
    UNNEEDED = "Unneeded"
    KEPT = "Kept"


@dataclass(frozen=True)
class FieldRecord:
    """A line of the account.

    :param path: the field of the input; empty if the line is about a default of the other operator.
    :param to: the field of the StreamJob; empty if there is none.
    :param fields: how many fields with a value the line is about.
    """

    kind: Kind
    path: str
    to: str = ""
    message: str = ""
    fields: int = 1


class Refused(StreamJobError):
    """There is no StreamJob for this object."""

    reason = "NotConvertible"


def text(path: Path) -> str:
    """`spec.driver.env[0].name`; a key that is no name is quoted: `spec.sparkConf["spark.app.name"]`."""
    out = ""
    for part in path:
        if isinstance(part, int):
            out += f"[{part}]"
        elif PLAIN.fullmatch(part):
            out += f".{part}" if out else part
        else:
            out += f'["{part}"]'
    return out


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """The paths of all fields with a value. An empty object, list or null is one too."""
    children: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        children = [(str(key), child) for key, child in value.items()]
    elif isinstance(value, list):
        children = list(enumerate(value))
    if not children:
        yield path
    for key, child in children:
        yield from leaves(child, (*path, key))


class Source:
    """An object, and which of its fields are accounted for.

    Reading a field does not account for it: whoever reads it says what it becomes. A field is accounted for
    once: an entry about a part of the object covers those of its fields that no earlier entry covers.
    """

    def __init__(self, document: Obj) -> None:
        self.document = document
        self.entries: list[FieldRecord] = []
        self._open = dict.fromkeys(leaves(document))
        for leaf in list(self._open):
            if self.get(leaf) in EMPTY:
                self.unneeded(leaf, "it is empty")

    def get(self, path: Path, default: Any = None) -> Any:
        """The value of a field, or `default` if it is missing or null."""
        value: Any = self.document
        for part in path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return default
        return default if value is None else value

    def children(self, path: Path) -> list[Path]:
        """The paths of an object's fields or of a list's entries."""
        value = self.get(path)
        if isinstance(value, dict):
            return [(*path, key) for key in value]
        return [(*path, i) for i in range(len(value))] if isinstance(value, list) else []

    def kept(self, path: Path, to: str) -> None:
        """The StreamJob has it, with the same meaning."""
        self._account(Kind.KEPT, path, to, "")

    def changed(self, path: Path, to: str, message: str) -> None:
        """The StreamJob has it, with another meaning.

        :param message: what is different.
        """
        self._account(Kind.CHANGED, path, to, message)

    def dropped(self, path: Path, message: str) -> None:
        """The StreamJob does not have it, and the user may miss it.

        :param message: why, and what to do instead.
        """
        self._account(Kind.DROPPED, path, "", message)

    def unneeded(self, path: Path, message: str) -> None:
        """The StreamJob does not have it, and nobody misses it.

        :param message: why.
        """
        self._account(Kind.UNNEEDED, path, "", message)

    def overridden(self, path: Path, to: str) -> None:
        """The StreamJob has another value there: that of the field which `to` was made from last."""
        made = (e.path for e in reversed(self.entries) if e.to == to and e.path and e.kind is not Kind.DECIDE)
        by = next(made, "another field")
        self.unneeded(path, f"{by} overrides it" + (f" in {to}" if by != to else ""))

    def adopt(self, part: Source, path: Path) -> None:
        """Take the account of another source, whose metadata are this one's and whose spec is at `path`."""
        known = {entry.path for entry in self.entries}
        for entry in part.finish():
            at = entry.path
            if at == "spec" or at.startswith(("spec.", "spec[")):
                at = text(path) + at.removeprefix("spec")
            if not at or at not in known:
                self.entries.append(replace(entry, path=at))
        for leaf in list(self._open):
            if leaf[: len(path)] == path or leaf[0] == "metadata":
                del self._open[leaf]

    def decide(self, to: str, message: str) -> None:
        """The user has to choose a value of the StreamJob, or may want another."""
        self.entries.append(FieldRecord(Kind.DECIDE, "", to, message, 0))

    def default(self, to: str, message: str) -> None:
        """The other operator has another default than StreamJob."""
        self.entries.append(FieldRecord(Kind.CHANGED, "", to, message, 0))

    def finish(self) -> tuple[FieldRecord, ...]:
        """The account. Fields that no rule has read are in it as dropped."""
        for leaf in list(self._open):
            self.dropped(leaf, NOT_KNOWN)
        return tuple(self.entries)

    def _account(self, kind: Kind, path: Path, to: str, message: str) -> None:
        covered = [leaf for leaf in self._open if leaf[: len(path)] == path]
        for leaf in covered:
            del self._open[leaf]
        if covered:
            self.entries.append(FieldRecord(kind, text(path), to, message, len(covered)))
