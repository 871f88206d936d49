"""Preflight of a query that resumes: does it read and write the same, and does its input still exist?"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ....protocol.messages.driver_status import Problem
from ....storage.file_systems import canonical
from ...query import endpoints
from ...query.edges import Channel
from ...query.endpoints import NotedEnds
from ...spark.checkpoint_dir import CheckpointDir
from ...spark.engine import Engine
from ...spark.offset_log import FORMAT, recovered
from ...spark.sources.plan_sources import Source, sources_of
from ...spark.stream_writer import Written
from ..restore_point import RestorePoint
from .data_loss import refuse_gone
from .dry_run import compare_sources, refuse_changed
from .pinned_settings import tell_pinned
from .source_names import refuse_forgotten_names

log = logging.getLogger("streamjob")


@dataclass(frozen=True)
class Going:
    """The preflight checks of one query.

    :param point: what the query's stage starts from.
    :param written: what the script set on the writer.
    :param sink: where the query writes, None if that is not known.
    :param upstream: stages that write what the query reads.
    :param is_shard: the query is a shard: its input is a share of its stage's input.
    :param later: as `refuse_gone`.
    """

    point: RestorePoint
    engine: Engine
    directory: CheckpointDir
    writer: DataStreamWriter
    written: Written
    sink: Channel | None
    upstream: Collection[str]
    is_shard: bool
    later: CheckpointDir | None = None

    @property
    def sources(self) -> list[Source] | None:
        return sources_of(self.writer)

    @cached_property
    def ends(self) -> NotedEnds | None:
        """What the query reads and writes. None if a source is of an unknown kind.

        What its foreachBatch function was seen to write is known from the last start.
        """
        if self.sources is None:
            return None
        files = self.engine.files
        now = endpoints.ends(self.sources, self.sink, self.written.by, files.qualify, files.spark.version)
        now = replace(now, former=self._former(now))
        before = self.noted if now.sink is None else None
        return replace(now, wrote=before.wrote) if before is not None and before.same_as(now) else now

    def _former(self, now: NotedEnds) -> tuple[str, ...]:
        """The named sources that the query has read and no longer reads."""
        entries = self.directory.last_entries()
        if entries is None or not entries[0].names_sources:
            return ()
        known = {*recovered(*entries), *(self.noted.former if self.noted else ())}
        return tuple(sorted(known - now.places.keys()))

    @cached_property
    def noted(self) -> NotedEnds | None:
        """The endpoints of the last start. First asked for before `note` replaces them."""
        return endpoints.noted(self.directory)

    def refuse(self, *, reads: bool, fits: bool) -> list[Problem]:
        """Run the checks of `dry_run`, `data_loss` and `pinned_settings`.

        :param fits: the query is known to fit the state: its next batch need not be planned.
        :param reads: the query is going to read new data, because the job is not asked to end.
        :returns: warnings for the user.
        :raises QueryChanged: the query is not the one that wrote the checkpoint.
        :raises SourceGone: input that the query reads next is lost.
        :raises SourceNamesForgotten: the offset log of a new query would not have its sources' names.
        """
        if self.engine.internals.traits.forgets_names and self.directory.latest_offset() is None:
            asked = self.directory.files.spark.conf.get(FORMAT, None)
            refuse_forgotten_names(self.sources or (), asked)
        fed = None if self.is_shard else self._moved_along
        if fits:
            warnings = compare_sources(self.writer, self.directory, fed=fed)
        else:
            mode, internals = self.written.mode, self.engine.internals
            warnings = refuse_changed(self.writer, mode, self.directory, internals, fed=fed)
        sources, later = self.sources or (), self.later
        warnings += refuse_gone(self.directory, sources, self.engine.jvm, reads=reads, later=later)
        return warnings + tell_pinned(self.directory)

    @property
    def wrote_here(self) -> bool | None:
        """Whether the query wrote to the same place before. None if that is not known."""
        before, now = self.noted, self.ends
        if before is None or before.sink is None or now is None or now.sink is None:
            return None
        return before.sink == now.sink

    def moved_sink(self) -> Problem | None:
        """A warning if the query now writes to another place, which may be intended.

        In a new folder, the log of its file sink must begin after the batches that are in the old one (see
        `sink_log`).
        """
        before, now = self.noted, self.ends
        if self.wrote_here is not False or before is None or now is None:
            return None
        text = (
            f"{self.directory.uri}: the output up to batch {self.directory.latest_commit()} is in "
            f"{before.sink}, from now on it comes to {now.sink}"
        )
        log.warning("%s", text)
        return Problem("SinkMoved", text, "Nothing has to be done if that is meant")

    def note(self) -> None:
        """Record the endpoints for the next start."""
        if self.ends is not None:
            endpoints.note(self.directory, self.ends)

    def _moved_along(self, folder: str) -> bool:
        """Whether another stage writes what this query reads, or wrote to `folder`, which it read before."""
        if self.upstream:
            return True
        found = (endpoints.noted(directory) for directory in self.point.directories_of_others())
        at = canonical(folder)
        return any(e is not None and e.sink is not None and e.sink.at == at for e in found)
