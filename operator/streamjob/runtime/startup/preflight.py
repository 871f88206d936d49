"""A query goes on in a checkpoint directory: does it still read and write what it did, and is that still there?"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...protocol.messages import DriverConfig, Problem
from ..query import endpoints
from ..query.edges import Channel
from ..query.endpoints import NotedEnds
from ..query.task import Engine
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.handles import analyzed_plan
from ..spark.plan_sources import Source, sources_of_plan
from ..spark.stream_writer import Written
from .check_data_loss import refuse_gone
from .dry_run import refuse_changed
from .restore_point import directory_of, restored

log = logging.getLogger("streamjob")


@dataclass(frozen=True)
class Going:
    """:param written: what the script has said of its output. :param sink: None if it is not known.
    :param upstream: stages that write what it reads. :param dealt: its input is a share of what its stage reads."""

    engine: Engine
    config: DriverConfig
    uid: str
    directory: CheckpointDir
    writer: DataStreamWriter
    written: Written
    sink: Channel | None
    upstream: Collection[str]
    dealt: bool

    @cached_property
    def sources(self) -> list[Source] | None:
        return sources_of_plan(analyzed_plan(self.writer))

    @cached_property
    def ends(self) -> NotedEnds | None:
        """None: its sources are not all of a kind that is known."""
        qualify = self.engine.files.qualify
        return (
            None
            if self.sources is None
            else endpoints.ends(self.sources, self.sink, self.written.by, qualify)
        )

    def refuse(self, *, reads: bool) -> list[Problem]:
        """What should be told of it. :param reads: it is going to read new data; the job is not asked to end.

        :raises QueryChanged: it is another query. :raises SourceGone: what it reads next is gone.
        """
        fed = None if self.dealt else self._moved_along
        told = refuse_changed(self.writer, self.written.mode, self.directory, self.engine.internals, fed=fed)
        return told + refuse_gone(self.directory, self.sources or (), self.engine.jvm, reads=reads)

    def moved_sink(self) -> Problem | None:
        """It writes elsewhere than before: that may be meant. In a new folder the log of its file sink has to begin after the
        batches that lie in the old one (see `sink_log`)."""
        before, now = endpoints.noted(self.directory), self.ends
        if before is None or before.sink is None or now is None or now.sink in (None, before.sink):
            return None
        text = (
            f"{self.directory.uri}: the output up to batch {self.directory.latest_commit()} is in {before.sink}, from now on it "
            f"comes to {now.sink}"
        )
        log.warning("%s", text)
        return Problem("SinkMoved", text, "Nothing has to be done if that is meant")

    def note(self) -> None:
        """For the next one that goes on. Not before the first batch: Spark 4.1 wants its directory to be empty."""
        if self.ends is not None and self.directory.latest_offset() is not None:
            endpoints.note(self.directory, self.ends)

    def _moved_along(self, folder: str) -> bool:
        """Another stage writes what it reads, or wrote to the folder that it read."""
        if self.upstream:
            return True
        files, record = self.engine.files, restored(self.engine.files, self.config)
        others = [s for s in (record.stages if record else ()) if s.uid != self.uid]
        directories = (directory_of(files, self.config, s.uid, task) for s in others for task in s.tasks)
        found = (endpoints.noted(directory) for directory in directories)
        return any(e is not None and e.sink is not None and e.sink.at == folder for e in found)
