"""The transaction log of a Delta table, as far as a query that reads the table needs it.

From DeltaSourceOffset of org.apache.spark.sql.delta.sources and the protocol of Delta's transaction log: each
version of a table is a commit, a JSON file with one action in each line.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from ....storage.hadoop import HadoopFiles

RESTORE = "RESTORE"  # the operation of RESTORE TABLE
COMMIT_LIMIT = 64 << 20  # bytes of one commit in the log


@dataclass(frozen=True)
class DeltaPosition:
    """A position in the offset log.

    :param table: the id of the table.
    :param version: of the commit that is read next.
    :param index: of the last file of it that was read; negative if none was.
    :param initial: the query still reads the table as it was at that version, not the commit.
    """

    table: str
    version: int
    index: int = -1
    initial: bool = False


@dataclass(frozen=True)
class AddedFile:
    """A file with new rows.

    :param path: below the table's folder, or a URI; with percent signs, as in the log.
    :param rows: None if the log does not have their number.
    """

    path: str
    rows: int | None
    bytes: int


@dataclass(frozen=True)
class DeltaCommit:
    """A commit.

    :param files: with new rows, in the order of the log.
    :param at: milliseconds since 1970.
    :param removes: it also takes rows away.
    :param restores: it brings an older version of the table back (RESTORE TABLE).
    """

    files: tuple[AddedFile, ...]
    at: int | None
    removes: bool = False
    restores: bool = False


class DeltaLog:
    """The log of one table.

    :param table: the URI of its folder.
    """

    def __init__(self, files: HadoopFiles, table: str) -> None:
        self._files = files
        self._table = table.rstrip("/")

    def commit(self, version: int) -> DeltaCommit:
        """:raises NotFound: the log does not have it: it is not written yet, or was cleaned up."""
        return parse_commit(self._files.read_bytes(self._file(version), COMMIT_LIMIT).decode())

    def has(self, version: int) -> bool:
        return self._files.exists(self._file(version))

    def first_left(self, version: int, newest: int) -> int | None:
        """The first version from `version` on that the log has. A clean-up removes the oldest ones.

        :param newest: the table's newest version.
        :returns: None if that is not known: the newest commit is not in the log (a catalog has it).
        """
        if version > newest or self.has(version):
            return version
        if not self.has(newest):
            return None
        return version + bisect_left(range(version, newest), True, key=self.has)

    def uri(self, path: str) -> str:
        """Where a file of the table is.

        :param path: as in the log.
        """
        plain = unquote(path)
        return plain if plain.startswith("/") or urlsplit(path).scheme else f"{self._table}/{plain}"

    def _file(self, version: int) -> str:
        return f"{self._table}/_delta_log/{version:020d}.json"


def delta_position(text: str | None) -> DeltaPosition | None:
    """Parse a position of a Delta source; None if the text is not one."""
    try:
        plain = json.loads(text or "")
        version, index = int(plain["reservoirVersion"]), int(plain["index"])
        return DeltaPosition(str(plain["reservoirId"]), version, index, bool(plain.get("isStartingVersion")))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def parse_commit(text: str) -> DeltaCommit:
    actions: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines() if line]
    info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    at = info.get("inCommitTimestamp", info.get("timestamp"))
    return DeltaCommit(
        tuple(_file(add) for add in _changes(actions, "add")),
        int(at) if at is not None else None,
        removes=bool(_changes(actions, "remove")),
        restores=info.get("operation") == RESTORE,
    )


def _changes(actions: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Those that change rows. A compaction only moves them."""
    return [a[kind] for a in actions if kind in a and a[kind].get("dataChange", True)]


def _file(add: dict[str, Any]) -> AddedFile:
    try:
        rows = json.loads(add.get("stats") or "{}").get("numRecords")
    except ValueError:
        rows = None
    return AddedFile(str(add["path"]), int(rows) if rows is not None else None, int(add.get("size", 0)))
