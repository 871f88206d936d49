"""The start of a query as a value: what the script asks for, and what follows from the restored checkpoint.

The rules of `admission.ADMISSION` take it one after another. Most of it is read only when a rule asks for it,
and each fact at most once.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol

from pyspark.sql.streaming.readwriter import DataStreamWriter

from ...protocol.graph import TaskName
from ...protocol.messages.driver_config import DriverConfig
from ...protocol.messages.driver_status import Problem
from ...protocol.restore.recovery import Start, TaskPlan
from ...storage.hadoop import HadoopFiles
from ..query import endpoints
from ..query.definition import Definition
from ..query.driver_state import StateManager
from ..query.edges import Endpoints
from ..query.endpoints import RecordedEndpoints
from ..query.places.owner import Owner, owner, owner_of
from ..query.run import Run, StartAgain
from ..query.runs import Runs
from ..query.transactions import Transactions
from ..spark import sink_log
from ..spark.checkpoint_dir import CheckpointDir
from ..spark.engine import Engine
from ..spark.offset_log import recovered
from ..spark.sources.plan_sources import Source
from ..spark.stream_writer import WriterOptions
from ..spark.tables.find import FindTable, MissingTable, OtherTable, table_written
from ..spark.tables.table import Table
from .begin_from import plan_of_only_task
from .carried_stages import CarriedStages
from .missing_stages import MissingStages
from .own_sink import OwnSink
from .restore_point import RestorePoint, RestorePoints
from .sharding.split_assignment import ShardedStage


class RunningJob(Protocol):
    """What a rule may ask of the job, and of its other queries. `Starter` implements it.

    :ivar runs: the last run of each task.
    """

    points: RestorePoints
    carried: CarriedStages
    missing: MissingStages
    runs: Runs[Run]

    @property
    def config(self) -> DriverConfig: ...

    @property
    def asked_to_end(self) -> bool: ...

    @property
    def drains(self) -> bool: ...

    def refuse_start(self, task: str, upstream: Collection[str], *, drained: bool) -> None:
        """As `Coordinator.refuse_start`."""

    def flushed_reader(self, task: str) -> str | None:
        """As `Coordinator.flushed_reader`."""

    def recorded_transactions(self, task: str) -> Collection[str]:
        """Those of the task in the latest checkpoint of this epoch."""


@dataclass(frozen=True)
class Comparison:
    """What a query read and wrote at its last start, and what it does now. None: that is not known."""

    before: RecordedEndpoints | None
    now: RecordedEndpoints | None

    @property
    def wrote_here(self) -> bool | None:
        """Whether it wrote to the same place before. None if that is not known."""
        if self.before is None or self.before.sink is None or self.now is None or self.now.sink is None:
            return None
        return self.before.sink == self.now.sink


@dataclass(eq=False)
class QueryStart:
    """A query that is about to start.

    :param restart: starts the writer again.
    :param sources: what it reads, None if one of them is of an unknown kind.
    :param shown: where it reads and writes, as far as the writer shows it.
    :param definition: what the query is; None if it has a checkpointLocation.
    :param before: the task's previous run in this epoch, None for the first. Only the first one restores
        anything.
    :param sharded: None for a query that is a stage of its own.
    :param upstream: uids of the stages that write what it reads.
    :param readers: the runs that read what it writes.
    :param fits: URI of a checkpoint directory with whose state the query has been found to fit.

    What the rules add:

    :param warnings: for the user. The query starts all the same.
    :param beginning: where it starts, for the log.
    :param drained: an earlier epoch began to fire its max watermark: for good.
    :param state_manager: manages the driver-side state that the script declares for it, None if it declares
        none.
    :param transactions: those of its sink, None if the sink is durable at each batch.
    :param own_sink: to be taken when the query starts; None if it writes with no file sink.
    """

    name: TaskName
    writer: DataStreamWriter
    written: WriterOptions
    engine: Engine
    job: RunningJob
    restart: StartAgain
    sources: list[Source] | None = None
    shown: Endpoints = field(default_factory=Endpoints)
    definition: Definition | None = None
    before: Run | None = None
    sharded: ShardedStage | None = None
    upstream: tuple[str, ...] = ()
    readers: tuple[Run, ...] = ()
    fits: str | None = None
    warnings: list[Problem] = field(default_factory=list)
    beginning: str = "nothing"
    drained: bool = False
    state_manager: StateManager | None = None
    transactions: Transactions | None = None
    own_sink: OwnSink | None = None

    @property
    def uid(self) -> str:
        return self.name.uid

    @property
    def task(self) -> str:
        return self.name.task

    @property
    def files(self) -> HadoopFiles:
        return self.engine.files

    def warn(self, *problems: Problem) -> None:
        self.warnings += problems

    # --- what it is -----------------------------------------------------------------------------------------

    @cached_property
    def sockets(self) -> bool:
        """Whether it reads from one, which nobody can read again."""
        return any(not source.replayable for source in self.sources or ())

    @property
    def volatile(self) -> bool:
        """Whether no other run can flush it: its source, or the table of its sink, is lost with it."""
        return self.sockets or (self.written.format == "memory" and self.written.location is None)

    @property
    def afresh(self) -> bool:
        """Whether each run of it starts from nothing, as in plain Python."""
        return self.volatile and self.written.location is None

    # --- where it begins ------------------------------------------------------------------------------------

    @cached_property
    def in_place(self) -> bool:
        """As `RestorePoints.continues_in_place`."""
        location = self.written.location
        return location is not None and self.job.points.continues_in_place(self.files, self.uid, location)

    @cached_property
    def _origin(self) -> tuple[RestorePoint, TaskPlan]:
        points = self.job.points
        if self.before is not None or self.afresh or self.in_place:
            return points.nothing(self.files, self.uid), TaskPlan(self.task, Start.NEW)
        if self.sharded is not None:
            return self.sharded.point, self.sharded.plan.tasks[self.name.index]
        point = points.of(self.files, self.uid)
        return point, plan_of_only_task(point)

    @property
    def point(self) -> RestorePoint:
        """What its stage starts from.

        :raises StreamJobError: as `RestorePoints.of`, `plan_of_only_task` and `ShardedStage.plan`.
        """
        return self._origin[0]

    @property
    def plan(self) -> TaskPlan:
        """How the task starts. It raises what `point` raises."""
        return self._origin[1]

    @property
    def finished(self) -> bool:
        """The restored checkpoint marks the task as finished, so it is not started (row 10)."""
        return self.plan.start is Start.FINISHED

    @property
    def all_finished(self) -> bool:
        """So are all other tasks of its stage."""
        return self.finished if self.sharded is None else not self.sharded.plan.started

    @cached_property
    def place(self) -> CheckpointDir:
        """Its checkpoint directory, which need not be there yet."""
        location = self.written.location
        if location is None:
            location = self._chosen_location()
        return CheckpointDir(self.files, self.files.qualify(location))

    @property
    def directory(self) -> CheckpointDir:
        """What it continues from is read here. `driver.check.start.CheckedStart` reads it elsewhere."""
        return self.place

    def _chosen_location(self) -> str:
        if self.afresh:
            return f"{self.point.folder}/volatile-{self.job.config.epoch}-{uuid.uuid4().hex[:8]}"
        if self.before is not None:
            return self.before.directory.uri
        if self.sharded is not None:
            return self.sharded.location(self.name.index)
        return f"{self.point.folder}/0"

    @property
    def restored(self) -> CheckpointDir | None:
        """The directory that is copied into its own. None if it starts from its own or from nothing."""
        point, record = self.point, self.plan.record
        if self.before is not None or record is None or not point.is_foreign:
            return None
        return point.adopted or point.directory(record)

    @property
    def new(self) -> bool:
        """Whether no run of it has planned a batch."""
        return self.before is None and self.directory.latest_offset() is None

    @property
    def restored_transactions(self) -> tuple[str, ...]:
        """Those of the restored checkpoint, to be committed if they are not."""
        return self.plan.record.transactions if self.plan.record else ()

    @cached_property
    def owner(self) -> Owner:
        config = self.job.config
        return owner(self.files, config.job, config.checkpoints, self.name.name, self.place.uri)

    @cached_property
    def owner_of_directory(self) -> Owner | None:
        """The owner of the checkpoint directory that the script chose. None if it chose none, or has none."""
        return None if self.written.location is None else owner_of(self.files, self.place.uri)

    # --- where it reads and writes --------------------------------------------------------------------------

    @property
    def ends(self) -> Endpoints:
        """With what its foreachBatch function was seen to write."""
        noted = self.compared.now
        channels = noted.channels if noted is not None else ()
        return self.shown.with_writes(*channels, *(self.before.ends.wrote if self.before else ()))

    @cached_property
    def folder(self) -> str | None:
        """As `sink_log.folder_of`."""
        return sink_log.folder_of(self.files, self.writer, self.written)

    @property
    def find_table(self) -> FindTable:
        return partial(table_written, self.writer, self.written, self.files.qualify)

    @cached_property
    def table(self) -> Table | OtherTable | MissingTable | None:
        """As `table_written`, of the task's first run in this epoch."""
        return self.find_table() if self.before is None else None

    @cached_property
    def compared(self) -> Comparison:
        """By its own directory. It is first asked for when the directory is at its batch, and before
        `note_endpoints` replaces what is noted there.
        """
        return self.compared_in(self.directory)

    def compared_in(self, directory: CheckpointDir) -> Comparison:
        before = endpoints.noted(directory)
        return Comparison(before, self._ends_now(directory, before))

    def _ends_now(
        self, directory: CheckpointDir, before: RecordedEndpoints | None
    ) -> RecordedEndpoints | None:
        """None if a source is of an unknown kind.

        What its foreachBatch function was seen to write is known from the last start.
        """
        sources, files = self.sources, self.files
        if sources is None:
            return None
        now = endpoints.ends(sources, self.shown.sink, self.written.by, files.qualify, files.spark.version)
        now = replace(now, former=_former(directory, now, before))
        same = now.sink is None and before is not None and before.same_as(now)
        return replace(now, wrote=before.wrote) if same and before is not None else now


def _former(
    directory: CheckpointDir, now: RecordedEndpoints, before: RecordedEndpoints | None
) -> tuple[str, ...]:
    """The named sources that the query has read and no longer reads."""
    entries = directory.last_entries()
    if entries is None or not entries[0].names_sources:
        return ()
    known = {*recovered(*entries), *(before.former if before else ())}
    return tuple(sorted(known - now.places.keys()))
