"""Assigns the splits of a stage to its tasks, and stores the assignment until a checkpoint contains it.

    CHECKPOINTS/STAGE/INDEX                     a task's checkpoint directory
    CHECKPOINTS/STAGE/INDEX-of-P-from-N         that of a task that took over remaining splits of checkpoint N
    CHECKPOINTS/STAGE/splits/start/…            the first assignment; `splits/from-N/` after checkpoint N
        parallelism                             P
        KEY.json                                the shares, a list for each task

A restarted task must get the same share again, even if no checkpoint contains it yet and the input folder has
changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cached_property
from urllib.parse import quote

from ...protocol import finished, splits
from ...protocol.messages import DriverConfig
from ...protocol.recovery import StagePlan, Start, StateCannotMove, TaskPlan, stage_plan
from ...shards import BadShards, Entries
from ..spark.checkpoint_dir import CheckpointDir
from ..storage.hadoop import HadoopFiles, NotFound
from .remaining_splits import as_of_now
from .restore_point import from_savepoint, root_of, stage_of, stage_to_restore

NAMES = "names"
LIMIT = 64 << 20  # bytes of a KEY.json
Shares = Sequence[Entries]


class ShardedStage:
    """A stage that the script has declared. Its plan is fixed when the first split is requested.

    :param files: opens the file system; called when the plan is made, for which a Spark session must exist.
    """

    def __init__(
        self, config: DriverConfig, uid: str, parallelism: int, files: Callable[[], HadoopFiles]
    ) -> None:
        self.uid = uid
        self.parallelism = parallelism
        self.like: CheckpointDir | None = None  # new tasks start after the batches of this one
        self._config = config
        self._open = files
        self._dealt: dict[str, Shares] = {}
        self._taken: set[tuple[int, str]] = set()
        self._begun: set[int] = set()
        self._root = root_of(config, uid)

    # --- where the tasks start from ---------------------------------------------------------------------------

    @cached_property
    def plan(self) -> StagePlan:
        """Where each task starts. The first access reads the restored record, and may write and delete files.

        :raises StateCannotMove: the stage cannot have this parallelism.
        :raises AlreadyDrained: nothing is left to resume.
        """
        stage = stage_to_restore(self._files, self._config, self.uid)
        plan = stage_plan(self.uid, self.parallelism, stage)
        if stage is not None and any(t.start is Start.REDISTRIBUTED for t in plan.tasks):
            now, self.like = as_of_now(self._files, self._config, stage)
            plan = stage_plan(self.uid, self.parallelism, now)
        self._agree(plan)
        return plan

    def location(self, index: int) -> str:
        """The URI of a task's checkpoint directory."""
        task = self.plan.tasks[index]
        if task.record is not None and from_savepoint(self._config) is None:
            return task.record.location
        return self._directory(index, self.parallelism)

    @cached_property
    def _files(self) -> HadoopFiles:
        return self._open()

    @cached_property
    def _origin(self) -> str:
        latest = self._config.restore.latest
        return (
            "start" if latest is None or stage_of(latest, self.uid) is None else f"from-{latest.checkpoint}"
        )

    def _directory(self, index: int, parallelism: int) -> str:
        name = str(index) if self._origin == "start" else f"{index}-of-{parallelism}-{self._origin}"
        return f"{self._root}/{name}"

    def _agree(self, plan: StagePlan) -> None:
        """Compare the parallelism with the stored one.

        It is stored if none is stored yet and no task continues in the directory of a checkpoint. A stored
        assignment with another parallelism is deleted if none of its tasks has run.

        :raises StateCannotMove: the stage ran with another parallelism, and no checkpoint has completed
            since.
        """
        folder = f"{self._root}/splits/{self._origin}"
        try:
            before = int(self._files.read_bytes(f"{folder}/parallelism"))
        except NotFound:
            before = None
        if before not in (None, self.parallelism):
            assert before is not None
            if any(self._has_run(self._directory(index, before)) for index in range(before)):
                raise StateCannotMove(
                    f"stage {self.uid!r} has {self.parallelism} tasks now and ran with {before}, and no checkpoint has "
                    "completed since then that says how far",
                    remedy=f"Give it parallelism {before} until a checkpoint has completed",
                )
            self._files.delete(folder)
            before = None
        begins = from_savepoint(self._config) is not None or all(t.record is None for t in plan.tasks)
        if begins and before is None:
            self._files.write_new(f"{folder}/parallelism", str(self.parallelism).encode())

    def _has_run(self, uri: str) -> bool:
        """Whether a query has committed a batch there that read something.

        Before the first checkpoint a planned batch counts too: tasks of another parallelism would start in
        the same directories.
        """
        directory = CheckpointDir(self._files, uri)
        batch = directory.latest_offset() if self._origin == "start" else directory.latest_commit()
        return batch is not None and any(line != "-" for line in directory.source_offsets(batch))

    # --- shares -----------------------------------------------------------------------------------------------

    def deal(self, index: int, key: str, all_of: Callable[[], Entries]) -> Entries:
        """As `shards.Dealer.deal`.

        :raises BadShards: there are splits that no task has been assigned, or a task has already started
            without this input.
        """
        if key not in self._dealt:
            if self._begun:
                raise self._not_taken(min(self._begun), key)
            self._dealt[key] = self._shares(key, all_of)
        self._taken.add((index, key))
        return self._dealt[key][index]

    def state(self, index: int) -> dict[str, tuple[str, ...]]:
        """The task's shares as the state of its record: list state under `splits.OPERATOR`, and `names`."""
        task = self.plan.tasks[index]
        if task.start is Start.FINISHED and task.record is not None:
            return task.record.state
        found = {NAMES: tuple(self._dealt[NAMES][index])} if NAMES in self._dealt else {}
        keys = [key for key in self._dealt if key != NAMES]
        if keys:
            found[splits.OPERATOR] = tuple(e for key in keys for e in self._dealt[key][index])
        return found

    def begin(self, index: int) -> None:
        """Start a task with its assigned shares.

        :raises BadShards: the task does not read an input that other tasks read.
        :raises StateCannotMove: the parallelism changed, and the tasks do not read all remaining splits.
        """
        for key in self._dealt:
            if (index, key) not in self._taken:
                raise self._not_taken(index, key)
        self._begun.add(index)
        if not any(t.start is Start.REDISTRIBUTED for t in self.plan.tasks):
            return
        missing = sorted({splits.key(e) for e in self._everything()} - set(self._dealt))
        if missing or not set(self._dealt) - {NAMES}:
            raise StateCannotMove(
                f"stage {self.uid!r} has another parallelism, and its tasks take nothing of what is left to read"
                + (f" of {', '.join(missing)}" if missing else ""),
                remedy="Read it with shard.kafka() or shard.files(), as before",
            )

    def _not_taken(self, index: int, key: str) -> BadShards:
        return BadShards(
            f"shard {index} of stage {self.uid!r} does not read {key} and others do: nobody would read its share",
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
        """The stored shares, which no checkpoint contains yet. If there are none, assign evenly and store.

        :raises BadShards: there are splits that the stored shares do not contain.
        """
        where = f"{self._root}/splits/{self._origin}/{quote(key, safe='')}.json"
        try:
            found: Shares = json.loads(self._files.read_bytes(where, LIMIT))
        except NotFound:
            found = finished.redistribute([all_of()], self.parallelism)
            self._files.write_new(where, json.dumps(found).encode())
            return found
        return found if key == "files" else self._same(key, found, all_of())

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

    @cached_property
    def _known(self) -> list[str]:
        """All entries of the restored record, including those of finished tasks."""
        stage = stage_to_restore(self._files, self._config, self.uid)
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
            remedy="Name those that it had; after a stop, another parallelism of a stage with shard.kafka() takes in all",
        )


def _of(key: str, task: TaskPlan, more: Entries) -> Entries:
    return (*(e for e in task.state.get(splits.OPERATOR, ()) if splits.key(e) == key), *more)
