"""The lag behind a folder: files that Spark would list and has not read.

From FileStreamSource of org.apache.spark.sql.execution.streaming. The source itself lists, with its own
rules for patterns, subfolders, hidden files and what other queries of Spark have written there.
"""

from __future__ import annotations

import re
from typing import Any

from py4j.protocol import Py4JError

from ....protocol.messages.figures import Lag
from ..checkpoint_dir import CheckpointDir
from ..sources.plan_sources import Source
from ..sources.source_log import files_between, log_offset

LIMIT = 100_000  # files of the folder; of more, the lag is not measured
MAX_AGE = 7 * 86_400_000  # milliseconds: Spark's default for maxFileAge
# Path, percent-encoded; size; time of change. Spark 3.5 has a pair without the size.
_ENTRY = re.compile(r"^(?:NewFileEntry\((.+),(\d+)|\((.+)),(\d+)\)$", re.MULTILINE)


class FilesLag:
    """Implements `Meter`. A measurement lists the folder once, as each trigger of the query does."""

    def __init__(self, stream: Any, key: str, source: Source | None, directory: CheckpointDir) -> None:
        self._stream = stream
        self._source = key
        self._directory = directory
        self._by_name = source is not None and source.flag("filenameonly", default=False)
        self._read: set[str] = set()  # of the files that were there at the last measurement
        self._newest = 0  # time of the newest file that was read
        self._upto = -1  # entry of the source's log

    def measure(self, position: str | None, now: float) -> Lag | None:
        listed = self._listed()
        if listed is None:
            return None
        self._read_on(position)
        self._read &= listed.keys()
        # Spark ignores older files, because it has forgotten which of them it has read.
        oldest = self._newest - MAX_AGE
        left = [f for key, f in listed.items() if key not in self._read and f[1] >= oldest]
        age = now - min(at for _, at in left) / 1000 if left else 0.0
        sizes = [size for size, _ in left if size is not None]
        size = sum(sizes) if len(sizes) == len(left) else None
        return Lag(files=len(left), bytes=size, seconds=round(max(age, 0.0), 1))

    def close(self) -> None:
        """Nothing is open."""

    def _read_on(self, position: str | None) -> None:
        upto = log_offset(position)
        if upto is None or upto <= self._upto:
            return
        files = files_between(self._directory, self._source, self._upto, upto)
        self._read.update(self._key(path) for path, _ in files)
        self._newest = max([self._newest, *(at for _, at in files)])
        self._upto = upto

    def _listed(self) -> dict[str, tuple[int | None, int]] | None:
        """Size and time of each file in the folder. None if there are too many, or Spark cannot be asked."""
        try:
            method = self._stream.getClass().getDeclaredMethod("fetchAllFiles", None)
            method.setAccessible(True)
            entries = method.invoke(self._stream, None)
        except Py4JError:
            return None  # another Spark, or the storage does not answer; the query itself reports that
        if entries.size() > LIMIT:
            return None
        found = _ENTRY.findall(str(entries.mkString("\n")))
        if len(found) != entries.size():
            return None  # another Spark, which describes a file otherwise
        return {
            self._key(path or pair): (int(size) if size else None, int(at)) for path, size, pair, at in found
        }

    def _key(self, path: str) -> str:
        return path.rpartition("/")[2] if self._by_name else path
