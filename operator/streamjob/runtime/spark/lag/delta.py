"""The lag behind a Delta table: the files of commits that are not read, with the rows that its log tells."""

from __future__ import annotations

from ....protocol.messages.figures import Lag
from ....storage.hadoop import HadoopFiles, NotFound
from ..sources.delta_log import AddedFile, DeltaCommit, DeltaLog, delta_position
from ..sources.plan_sources import Source

COMMITS = 1000  # to look at; of a table that is further ahead, the lag is not measured


class DeltaLag:
    """Implements `Meter`. A measurement reads each new commit once, and looks for the next one."""

    def __init__(self, files: HadoopFiles, table: str, source: Source | None) -> None:
        self._log = DeltaLog(files, table)
        self._commits: dict[int, DeltaCommit] = {}
        self._is_change_feed = source is not None and source.reads_changes

    def measure(self, position: str | None, now: float) -> Lag | None:
        at = delta_position(position)
        # The log does not tell how much is left of the table as it was at the start.
        if at is None or at.initial or self._is_change_feed:
            return None
        unread = self._from(at.version)
        if unread is None:
            return None
        left: list[AddedFile] = []
        times: list[int] = []
        for number, commit in unread.items():
            files = commit.files[max(at.index + 1, 0) :] if number == at.version else commit.files
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

    def _from(self, version: int) -> dict[int, DeltaCommit] | None:
        """The commits from a version on, None if there are too many."""
        self._commits = {n: c for n, c in self._commits.items() if n >= version}
        number = version
        while True:
            if number not in self._commits:
                try:
                    self._commits[number] = self._log.commit(number)
                except NotFound:
                    return self._commits
            number += 1
            if number - version > COMMITS:
                return None
