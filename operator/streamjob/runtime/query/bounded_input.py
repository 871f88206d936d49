"""Whether the declared end of a query's input (`streamjob.bounds`) is reached, read from the offset log."""

from __future__ import annotations

import json
from typing import Any

from ... import bounds
from ...bounds import BadBound, Bound, KafkaEnd
from ...job import ONLY_QUERY
from ...jvm.errors import one_line
from ...protocol.errors import StreamJobError
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.offset_log import OffsetLogEntry


class InputEnd:
    """The end of one query's input. The script may declare it before or after the start, or not at all."""

    def __init__(self, query: str | None, directory: CheckpointDir) -> None:
        self._query = query or ONLY_QUERY
        self._directory = directory
        self._batch: int | None = None
        self._offsets: list[Any] | dict[str, Any] = []  # of `_batch`
        self._reached = False

    @property
    def declared(self) -> bool:
        """Whether the script has declared one by now."""
        return bounds.of(self._query) is not None

    @property
    def leaves_rest(self) -> bool:
        """Whether the sources may still hold unread input when the end is reached."""
        bound = bounds.of(self._query)
        return bound is not None and bounds.leaves_rest(bound)

    def reached(self) -> bool:
        """Whether the end is reached. True only once.

        Each call lists the commit log, and reads one log entry per new batch. It does nothing if no end is
        declared or it was reported already.

        :raises StorageError: the answer is not known at the moment.
        :raises BadBound: the script's function failed.
        """
        bound = bounds.of(self._query)
        if bound is None or self._reached:
            return False
        batch = self._directory.latest_commit()
        if batch is not None and batch != self._batch:
            self._offsets = _parsed(self._directory.entry(batch))
            self._batch = batch
        if not self._offsets and not (self.leaves_rest or isinstance(bound, KafkaEnd)):
            return False  # a script's own function need not handle the time before the first batch
        self._reached = self._ask(bound)
        return self._reached

    def _ask(self, bound: Bound) -> bool:
        try:
            return bool(bound(self._offsets))
        except StreamJobError:
            raise
        except Exception as e:
            raise BadBound(
                f"the end of query {self._query!r} is not known: its function raised {type(e).__name__}: "
                f"{one_line(e)}",
                remedy="Fix the function given to job.bounded(); it gets the end offsets of the query's "
                "sources",
            ) from e


def _parsed(entry: OffsetLogEntry) -> list[Any] | dict[str, Any]:
    """The offsets as a `Bound` gets them."""
    found = {key: _json(position) for key, position in entry.offsets.items()}
    if entry.names_sources:
        return found
    # Format 2 leaves out sources that have read nothing.
    return [found.get(str(number)) for number in range(1 + max(map(int, found), default=-1))]


def _json(position: str | None) -> Any:
    """The parsed position. None for a source that has read nothing, the text itself if it is not JSON."""
    if position is None:
        return None
    try:
        return json.loads(position)
    except ValueError:
        return position
