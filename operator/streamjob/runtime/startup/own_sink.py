"""The folder of a file sink, which a query has to itself: checked at its admission, taken at its start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ...storage.hadoop import HadoopFiles
from ..query.places.owner import Owner, taken
from ..spark import sink_log
from .checks.file_sink import SinkFolder, shared


@dataclass(frozen=True)
class OwnSink:
    """The folder of Spark's file sink.

    :param begins_after: a batch after which its log has to begin, None if the log is right as it is.
    """

    files: HadoopFiles
    folder: SinkFolder
    me: Owner
    begins_after: int | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """The query starts in the block. From then on, the folder is its own.

        :raises SinkShared: another query has been faster.
        """
        at = self.folder.at
        with taken(self.files, f"{at}/{sink_log.METADATA}", self.me, self.folder.owner) as faster:
            if faster is not None:
                raise shared(replace(self.folder, owner=faster), self.me)
            if self.begins_after is not None:
                sink_log.begin_after(self.files, at, self.begins_after)
            yield
