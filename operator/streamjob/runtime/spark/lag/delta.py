"""The lag behind a Delta table: the files of commits that are not read, with the rows that its log tells.

From DeltaSourceOffset of org.apache.spark.sql.delta.sources and the protocol of Delta's transaction log: a
position is a version and the number of the last file that was read of its commit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from ....protocol.messages.figures import Lag
from ....storage.hadoop import HadoopFiles, NotFound
from ..sources.plan_sources import Source

COMMIT_LIMIT = 64 << 20  # bytes of one commit in the log
COMMITS = 1000  # to look at; of a table that is further ahead, the lag is not measured


@dataclass(frozen=True)
class _File:
    rows: int | None
    bytes: int


@dataclass(frozen=True)
class _Commit:
    """The files with new rows, in the order of the log, and the commit's time in milliseconds since 1970."""

    files: tuple[_File, ...]
    at: int | None


class DeltaLag:
    """Implements `Meter`. A measurement reads each new commit once, and looks for the next one."""

    def __init__(self, files: HadoopFiles, table: str, source: Source | None) -> None:
        self._files = files
        self._table = table.rstrip("/")
        self._commits: dict[int, _Commit] = {}
        changes = ("readchangefeed", "readchangedata")
        self._is_change_feed = source is not None and any(source.flag(o, default=False) for o in changes)

    def measure(self, position: str | None, now: float) -> Lag | None:
        at = _parsed(position)
        if at is None or self._is_change_feed:
            return None
        version, index = at
        unread = self._from(version)
        if unread is None:
            return None
        left: list[_File] = []
        times: list[int] = []
        for number, commit in unread.items():
            files = commit.files[max(index + 1, 0) :] if number == version else commit.files
            left += files
            if files and commit.at is not None:
                times.append(commit.at)
        age = max(now - min(times) / 1000, 0.0) if times else None
        rows = [f.rows for f in left]
        return Lag(
            rows=None if None in rows else sum(r for r in rows if r is not None),
            files=len(left),
            bytes=sum(f.bytes for f in left),
            seconds=round(age, 1) if age is not None else None if left else 0.0,
        )

    def close(self) -> None:
        """Nothing is open."""

    def _from(self, version: int) -> dict[int, _Commit] | None:
        """The commits from a version on, None if there are too many."""
        self._commits = {n: c for n, c in self._commits.items() if n >= version}
        number = version
        while True:
            if number not in self._commits:
                try:
                    text = self._files.read_bytes(
                        f"{self._table}/_delta_log/{number:020d}.json", COMMIT_LIMIT
                    )
                except NotFound:
                    return self._commits
                self._commits[number] = _commit(text.decode())
            number += 1
            if number - version > COMMITS:
                return None


def _parsed(position: str | None) -> tuple[int, int] | None:
    """Version and index of a position. None while the query reads the table as it was at its start: the log
    does not tell how much of that is left.
    """
    try:
        plain = json.loads(position or "")
        if plain.get("isStartingVersion"):
            return None
        return int(plain["reservoirVersion"]), int(plain["index"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _commit(text: str) -> _Commit:
    actions: list[dict[str, Any]] = [json.loads(line) for line in text.splitlines() if line]
    info: dict[str, Any] = next((a["commitInfo"] for a in actions if "commitInfo" in a), {})
    at = info.get("inCommitTimestamp", info.get("timestamp"))
    adds = [a["add"] for a in actions if "add" in a and a["add"].get("dataChange", True)]
    return _Commit(tuple(_file(add) for add in adds), int(at) if at is not None else None)


def _file(add: dict[str, Any]) -> _File:
    try:
        rows = json.loads(add.get("stats") or "{}").get("numRecords")
    except ValueError:
        rows = None
    return _File(int(rows) if rows is not None else None, int(add.get("size", 0)))
