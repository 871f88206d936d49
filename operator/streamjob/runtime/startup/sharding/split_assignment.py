"""Assigns the splits of a stage to its tasks, and stores the assignment until a checkpoint contains it.

    CHECKPOINTS/STAGE/INDEX                     a task's checkpoint directory
    CHECKPOINTS/STAGE/INDEX-of-P-from-N         that of a task that took over remaining splits of checkpoint N
    CHECKPOINTS/STAGE/splits/start/…            the first assignment; `splits/from-N/` after checkpoint N
        parallelism                             P
        KEY.json                                the shares, a list for each task

A restarted task must get the same share again, even if no checkpoint contains it yet and the input folder has
changed. So the assignment is stored before the first task starts, by `ShardedStage.prepare`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from ....protocol.formats import splits
from ....protocol.restore import finished
from ....protocol.restore.recovery import StagePlan, Start, StateCannotMove, TaskPlan, stage_plan
from ....shards import BadShards, Entries
from ....storage.hadoop import HadoopFiles, NotFound
from ...spark.checkpoint_dir import CheckpointDir
from ..restore_point import RestorePoint, RestorePoints
from .remaining_splits import as_of_now

NAMES = "names"
LIMIT = 64 << 20  # bytes of a KEY.json
Shares = Sequence[Entries]


@dataclass(frozen=True)
class Origin:
    """Where the tasks of a stage start.

    :param plan: how each task starts.
    :param like: new tasks start after the batches of this directory, None if they start from nothing.
    :param stored: the parallelism of the stored assignment, None if there is none.
    """

    plan: StagePlan
    like: CheckpointDir | None
    stored: int | None


class ShardedStage:
    """A stage that the script has declared. Its plan is fixed when the first split is requested.

    Storage is only read, until `prepare`.

    :param files: opens the file system; called for the restore point, for which a Spark session must exist.
    """

    def __init__(
        self, points: RestorePoints, uid: str, parallelism: int, files: Callable[[], HadoopFiles]
    ) -> None:
        self.uid = uid
        self.parallelism = parallelism
        self._points = points
        self._open = files
        self._assigned: dict[str, Shares] = {}
        self._taken: set[tuple[int, str]] = set()
        self._begun: set[int] = set()
        self._to_store: dict[str, Shares] = {}  # those of `_assigned` that are new
        self._prepared = False
        self._preparing = threading.Lock()  # shards may start at the same time

    # --- where the tasks start ------------------------------------------------------------------------------

    @cached_property
    def point(self) -> RestorePoint:
        """What the stage starts from."""
        return self._points.of(self._open(), self.uid)

    @property
    def plan(self) -> StagePlan:
        """How each task starts.

        :raises StateCannotMove: the stage cannot have this parallelism.
        :raises AlreadyDrained: nothing is left to resume.
        """
        return self._origin.plan

    @property
    def like(self) -> CheckpointDir | None:
        """New tasks start after the batches of this directory. None if they start from nothing."""
        return self._origin.like

    @cached_property
    def _origin(self) -> Origin:
        stage, like = self.point.record, None
        plan = stage_plan(self.uid, self.parallelism, stage)
        if stage is not None and any(t.start is Start.REDISTRIBUTED for t in plan.tasks):
            now, like = as_of_now(self.point, stage)
            plan = stage_plan(self.uid, self.parallelism, now)
        return Origin(plan, like, self._stored_parallelism())

    def location(self, index: int) -> str:
        """The URI of a task's checkpoint directory."""
        task = self.plan.tasks[index]
        if task.record is not None and not self.point.is_foreign:
            return task.record.location
        return self._directory(index, self.parallelism)

    def prepare(self) -> None:
        """Store the assignment. Called for each task, before its query starts.

        The parallelism is stored unless a task continues in the directory of a checkpoint. A stored
        assignment with another parallelism is deleted: none of its tasks has run.
        """
        with self._preparing:
            if self._prepared:
                return
            stored = self._origin.stored
            if stored not in (None, self.parallelism):
                self._files.delete(self._folder)
                stored = None
            if stored is None and (self.point.is_foreign or all(t.record is None for t in self.plan.tasks)):
                self._files.write_new(f"{self._folder}/parallelism", str(self.parallelism).encode())
            for key, shares in self._to_store.items():
                self._files.write_new(self._stored_at(key), json.dumps(shares).encode())
            self._prepared = True

    @property
    def _files(self) -> HadoopFiles:
        return self.point.files

    @property
    def _from(self) -> str:
        """The checkpoint that the assignment belongs to: `start` before the first one of this job.

        Later checkpoints that only carry the stage change nothing: its tasks may have begun meanwhile.
        """
        point = self.point
        if point.is_foreign or point.record is None or point.checkpoint is None:
            return "start"
        carried = point.record.carried_from
        return f"from-{point.checkpoint.checkpoint if carried is None else carried}"

    @property
    def _folder(self) -> str:
        return f"{self.point.folder}/splits/{self._from}"

    def _stored_at(self, key: str) -> str:
        return f"{self._folder}/{quote(key, safe='')}.json"

    def _directory(self, index: int, parallelism: int) -> str:
        name = str(index) if self._from == "start" else f"{index}-of-{parallelism}-{self._from}"
        return f"{self.point.folder}/{name}"

    def _stored_parallelism(self) -> int | None:
        """The parallelism of the stored assignment, None if there is none.

        :raises StateCannotMove: the stage ran with another parallelism, and no checkpoint has completed
            since.
        """
        try:
            before = int(self._files.read_bytes(f"{self._folder}/parallelism"))
        except NotFound:
            return None
        if before == self.parallelism:
            return before
        if any(self._has_run(self._directory(index, before)) for index in range(before)):
            raise StateCannotMove(
                f"stage {self.uid!r} has {self.parallelism} tasks now and ran with {before}, and no "
                "checkpoint has completed since then that says how far",
                remedy=f"Give it parallelism {before} until a checkpoint has completed",
            )
        return before

    def _has_run(self, uri: str) -> bool:
        """Whether a query has committed a batch there that read something.

        Before the first checkpoint a planned batch counts too: tasks of another parallelism would start in
        the same directories.
        """
        directory = CheckpointDir(self._files, uri)
        batch = directory.latest_offset() if self._from == "start" else directory.latest_commit()
        return batch is not None and any(p is not None for p in directory.source_offsets(batch).values())

    # --- shares ---------------------------------------------------------------------------------------------

    def assign(self, index: int, key: str, all_of: Callable[[], Entries]) -> Entries:
        """As `shards.SplitAssigner.assign`.

        :raises BadShards: there are splits that no task has been assigned, or a task has already started
            without this input.
        """
        if key not in self._assigned:
            if self._begun:
                raise self._not_taken(min(self._begun), key)
            self._assigned[key] = self._shares(key, all_of)
        self._taken.add((index, key))
        return self._assigned[key][index]

    def state(self, index: int) -> dict[str, tuple[str, ...]]:
        """The task's shares as the state of its record: list state under `splits.OPERATOR`, and `names`."""
        task = self.plan.tasks[index]
        if task.start is Start.FINISHED and task.record is not None:
            return task.record.state
        found = {NAMES: tuple(self._assigned[NAMES][index])} if NAMES in self._assigned else {}
        keys = [key for key in self._assigned if key != NAMES]
        if keys:
            found[splits.OPERATOR] = tuple(e for key in keys for e in self._assigned[key][index])
        return found

    def begin(self, index: int) -> None:
        """Start a task with its assigned shares.

        :raises BadShards: the task does not read an input that other tasks read.
        :raises StateCannotMove: the parallelism changed, and the tasks do not read all remaining splits.
        """
        for key in self._assigned:
            if (index, key) not in self._taken:
                raise self._not_taken(index, key)
        self._begun.add(index)
        if not any(t.start is Start.REDISTRIBUTED for t in self.plan.tasks):
            return
        missing = sorted({splits.key(e) for e in self._everything()} - set(self._assigned))
        if missing or not set(self._assigned) - {NAMES}:
            raise StateCannotMove(
                f"stage {self.uid!r} has another parallelism, and its tasks take nothing of what is left to "
                "read" + (f" of {', '.join(missing)}" if missing else ""),
                remedy="Read it with shard.kafka() or shard.files(), as before",
            )

    def _not_taken(self, index: int, key: str) -> BadShards:
        return BadShards(
            f"shard {index} of stage {self.uid!r} does not read {key} and others do: nobody would read its "
            "share",
            remedy="Let all shards of a stage read the same",
        )

    def _everything(self) -> list[str]:
        return [e for t in self.plan.tasks for e in t.state.get(splits.OPERATOR, ())]

    def _shares(self, key: str, all_of: Callable[[], Entries]) -> Shares:
        tasks = self.plan.tasks
        if key == NAMES and any(NAMES in t.state for t in tasks):
            return self._same(key, [t.state.get(NAMES, ()) for t in tasks], all_of())
        if key == NAMES or not any(splits.OPERATOR in t.state for t in tasks):
            if all(t.start is Start.FINISHED for t in tasks):
                return finished.redistribute([all_of()], self.parallelism)
            return self._remembered(key, all_of)
        return [_of(key, task, more) for task, more in zip(tasks, self._more(key, all_of), strict=True)]

    def _remembered(self, key: str, all_of: Callable[[], Entries]) -> Shares:
        """The stored shares, which no checkpoint contains yet. If there are none, assign evenly.

        :raises BadShards: there are splits that the stored shares do not contain.
        """
        if self._origin.stored in (None, self.parallelism):
            try:
                found: Shares = json.loads(self._files.read_bytes(self._stored_at(key), LIMIT))
            except NotFound:
                pass
            else:
                return found if key == "files" else self._same(key, found, all_of())
        self._to_store[key] = finished.redistribute([all_of()], self.parallelism)
        return self._to_store[key]

    def _more(self, key: str, all_of: Callable[[], Entries]) -> Shares:
        """Shares of the partitions that a topic has gained since the record was made.

        :raises BadShards: there are some, and the stage keeps its parallelism.
        """
        none: Shares = [()] * self.parallelism
        if key == "files":
            return none
        known = {splits.identity(e) for e in self._known if splits.key(e) == key}
        fresh = [e for e in all_of() if splits.identity(e) not in known]
        if known and fresh and any(t.start is Start.RESUME for t in self.plan.tasks):
            raise self._changed(f"{len(fresh)} more partitions of {key}")
        return finished.redistribute([fresh], self.parallelism)

    @property
    def _known(self) -> list[str]:
        """All entries of the restored record, including those of finished tasks."""
        stage = self.point.record
        return [e for t in stage.tasks for e in t.state.get(splits.OPERATOR, ())] if stage else []

    def _same(self, key: str, shares: Shares, now: Entries) -> Shares:
        which = str if key == NAMES else splits.identity
        before = {which(e) for share in shares for e in share}
        if strange := [e for e in now if which(e) not in before]:
            raise self._changed(f"{len(strange)} splits more, such as {strange[0]},")
        return shares

    def _changed(self, what: str) -> BadShards:
        return BadShards(
            f"stage {self.uid!r} has {what} than its tasks were given, so nobody would read them",
            remedy="Name those that it had; after a stop, another parallelism of a stage with shard.kafka() "
            "takes in all",
        )


def _of(key: str, task: TaskPlan, more: Entries) -> Entries:
    return (*(e for e in task.state.get(splits.OPERATOR, ()) if splits.key(e) == key), *more)
