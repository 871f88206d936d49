"""The folder of a file sink, which a query has to itself: checked at its admission, taken at its start."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ...protocol.messages.driver_status import Problem
from ...protocol.restore.recovery import Start, TaskPlan
from ...storage.file_systems import canonical
from ...storage.hadoop import HadoopFiles
from ..query.places.claim import is_transactional
from ..query.places.owner import Owner, owner_of, taken
from ..spark import sink_log
from ..spark.checkpoint_dir import CheckpointDir
from .checks.file_sink import SinkFolder, StartingQuery, begins_behind, refuse_owned, shared
from .checks.preflight import Going
from .restore_point import RestorePoint

log = logging.getLogger("streamjob")


@dataclass(frozen=True)
class OwnSink:
    """The folder of Spark's file sink.

    :param begins_after: a batch after which its log has to begin, None if the log is right as it is.
    :param warning: for the user.
    """

    files: HadoopFiles
    folder: SinkFolder
    me: Owner
    begins_after: int | None = None
    warning: Problem | None = None

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


def own_sink(
    directory: CheckpointDir,
    at: str | None,
    me: Owner,
    point: RestorePoint,
    plan: TaskPlan,
    going: Going,
) -> OwnSink | None:
    """Check the log of a file sink.

    :param at: the folder of Spark's file sink, None for other sinks.
    :returns: None for other sinks, and for a query that will not start.
    :raises StreamJobError: as `begins_behind`.
    """
    files = directory.files
    commits = is_transactional(going.written)
    if commits and going.sink is not None:
        at = next(iter(going.sink.folders), None)
    if at is None or plan.start is Start.FINISHED:
        return None
    origins = frozenset(canonical(t.location) for t in (point.record.tasks if point.record else ()))
    here = False if plan.start is Start.REDISTRIBUTED else going.wrote_here
    committed = directory.latest_commit()
    query = StartingQuery(me, origins, directory.latest_offset(), committed, here)
    record = f"{at}/{sink_log.METADATA}"
    folder = SinkFolder(
        at,
        sink_log.read(files, at, sink_log.interval(files.spark)),
        owner_of(files, record),
        files.exists(f"{at}/{sink_log.TRANSACTIONS}"),
    )
    if commits:
        refuse_owned(folder, query)
        return None
    begins_after = committed if begins_behind(folder, query) else None
    warning = _log_begins(me.query, at, begins_after) if begins_after is not None and here is None else None
    return OwnSink(files, folder, me, begins_after, warning)


def _log_begins(name: str, folder: str, committed: int) -> Problem:
    text = (
        f"query {name!r} has output up to batch {committed}, and {folder} has no log of any: from now on the "
        "output comes there"
    )
    log.warning("%s", text)
    return Problem("SinkMoved", text, "Nothing has to be done if that is meant")
