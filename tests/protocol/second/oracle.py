"""What FLIP-147 forbids. Each check quotes the sentence that it comes from.

"Row N" is a row of the life cycle's table in docs/semantics.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from streamjob.protocol.engine import effects as fx
from streamjob.protocol.formats.records import CheckpointRecord
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode, TerminationRequest

from .world import World


class Violation(AssertionError):
    """The engine did what FLIP-147 forbids."""


def demand(holds: bool, said: str) -> None:
    if not holds:
        raise Violation(said)


@dataclass
class TaskLife:
    """What one run has gone through.

    :param ended: the number of the first checkpoint that can be triggered after its data ended.
    :param ended_itself: the script or its trigger has ended it, so it is no end of the stage.
    """

    fired: bool = False
    finished: bool = False
    ended: int | None = None
    durable_sink: bool = False
    asked: bool = False
    ended_itself: bool = False
    closing: bool = False
    closed: bool = False
    failed: bool = False
    drained_before: bool = False


@dataclass
class Oracle:
    """Watches one epoch.

    :param restored: the tasks that the restored checkpoint flags as finished.
    :param completed: the checkpoints of which the coordinator has been told that they completed.
    :param triggered: by number, the tasks whose finish() had returned when the checkpoint was triggered.
    """

    world: World
    restored: set[str] = field(default_factory=set)
    lives: dict[str, TaskLife] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)
    completed: set[int] = field(default_factory=set)
    durable: set[int] = field(default_factory=set)
    dead: set[int] = field(default_factory=set)
    flagged: set[str] = field(default_factory=set)
    input_over: set[str] = field(default_factory=set)
    request: TerminationRequest | None = None
    completed_before: frozenset[int] = frozenset()
    request_completed: bool = False
    over_before_request: bool = False
    final_completed: bool = False
    canceled: bool = False
    terminated: bool = False

    # --- what happens ---------------------------------------------------------------------------------------

    def begins(self, task: str, *, durable_sink: bool, drained_before: bool) -> None:
        demand(task not in self.restored, f"{task} has finished and is started again (row 10)")
        self.started.add(task)
        life = self.lives.get(task)
        if life is not None and life.finished:
            life.failed = False
            return  # "finished operators stay finished"
        self.lives[task] = TaskLife(durable_sink=durable_sink, drained_before=drained_before)

    def ends(self, task: str, next_number: int) -> None:
        self.lives[task].ended = next_number

    # --- effects --------------------------------------------------------------------------------------------

    def look(self, effects: Iterable[fx.Effect], told: str) -> None:
        for effect in effects:
            task = getattr(effect, "task", None)
            demand(not self.terminated, f"{effect} after the job has terminated")
            demand(
                task not in self.restored or isinstance(effect, fx.NotifyComplete | fx.AbortTransactions),
                f"{effect}: {task} has finished in an earlier epoch, it is skipped (row 10)",
            )
            if self.canceled:
                allowed = fx.Cancel | fx.Terminated | fx.AbortCheckpoint
                demand(isinstance(effect, allowed), f"{effect} after a cancel: nothing is flushed (row 13)")
            match effect:
                case fx.FireMaxWatermark():
                    self._fires(effect.task)
                case fx.Finish():
                    life = self.lives[effect.task]
                    demand(life.fired, f"finish() of {effect.task} before the max watermark (row 3)")
                    demand(not life.finished, f"finish() of {effect.task} twice (row 3)")
                case fx.Close():
                    self._closes(effect.task)
                case fx.NotifyComplete():
                    demand(effect.number in self.completed, f"{effect}: it has not completed (row 5)")
                case fx.AnnounceCheckpoint():
                    demand(effect.number in self.durable, f"{effect}: it is not durable")
                    demand(effect.number not in self.dead, f"{effect}: it was aborted")
                case fx.AbortCheckpoint():
                    demand(effect.number not in self.durable, f"{effect}: it is durable already")
                    self.dead.add(effect.number)
                case fx.StoreCheckpoint():
                    self._stores(effect)
                case fx.Terminated():
                    self._terminates(told)

    def _fires(self, task: str) -> None:
        """ "Thus we only emit MAX_WATERMARK to trigger all the event timers and call endInput() for the
        latter case" (--drain), or when "all the sources finished". "Aligned on MAX_WATERMARK": a task with
        two inputs waits for both. And it has processed what upstream committed (row 4).
        """
        world, life = self.world, self.lives[task]
        demand(not life.fired, f"{task}: max watermark twice (row 2)")
        there = world.directories[task]
        if there.drained:
            return  # an earlier epoch has fired it, which cannot be undone
        drains = self.request is not None and self.request.mode is Mode.DRAIN
        for source in world.sources(task):
            of = world.directories[source]
            unknown = source not in self.started and not world.is_recorded(of.spec.uid)
            if unknown or (of.spec.uid, there.spec.uid) in world.late:
                continue
            unread = world.unread(task, source)
            demand(not unread, f"max watermark of {task}, which has not read {unread} of {source} (row 4)")
            up = self.lives.get(source)
            flushed = source in self.restored or of.drained or (up is not None and up.finished)
            late = any(writer == of.spec.uid for writer, _ in world.late)
            halted = (late or of.spec.uid in world.stopped) and (up is None or up.ended is not None)
            demand(
                flushed or halted or world.is_spent(source),
                f"max watermark of {task} before {source} has ended (row 4)",
            )
        demand(
            life.asked is False or drains,
            f"max watermark of {task} in a stop (row 2)",
        )
        if not drains:
            over = not there.spec.own or task in self.input_over
            demand(over, f"max watermark of {task}, whose sources have not ended (row 2)")

    def _closes(self, task: str) -> None:
        """ "Wait for the next checkpoint / the savepoint after operator finished complete; close() for all
        the operators"; a stop: "all the tasks need to wait for the exact savepoint". "On received
        EndOfPartitionEvent … close()": after everything upstream.
        """
        life = self.lives[task]
        demand(life.ended is not None, f"{task} is closed before its data has ended (row 5)")
        assert life.ended is not None
        demand(not life.closing, f"close() of {task} twice")
        life.closing = True
        final = [n for n in self.completed if n >= life.ended]
        # "Skip waiting for the final checkpoint if possible" (row 12)
        skips = life.durable_sink and life.finished
        demand(bool(final) or skips, f"{task} is closed without a checkpoint triggered after its end (row 5)")
        stops = self.request is not None and self.request.mode is Mode.STOP
        if stops and not (skips and not life.asked):
            before = [n for n in final if n in self.completed_before]
            demand(
                self.request_completed or bool(before),
                f"{task} is closed in a stop by another checkpoint than the savepoint (row 6)",
            )
        if life.finished and not life.drained_before:
            for source in self.world.sources(task):
                up = self.lives.get(source)
                demand(
                    up is None or up.closed or up.ended_itself or up.failed or source in self.restored,
                    f"{task} is closed before {source} upstream: EndOfPartition comes after (row 4)",
                )

    def _stores(self, effect: fx.StoreCheckpoint) -> None:
        """ "isFinished": finish() ran before the trigger; a finished operator stays finished; "adding a new
        operator before a fully finished one" is refused, so no record may be such (row 10).
        """
        demand(effect.number not in self.dead, f"{effect}: it was aborted")
        for task in effect.finished - self.restored:
            life = self.lives.get(task)
            ended = life.ended if life is not None and life.finished else None
            if ended is None:
                raise Violation(f"{effect}: finish() of {task} has not run (row 8)")
            late = f"{effect}: finish() of {task} returned after the trigger (row 5)"
            demand(ended <= effect.number, late)
        here = self.flagged & (self.started | self.joined)
        lost = {t for t in here - effect.finished if t in self.restored or self.lives[t].finished}
        demand(not lost, f"{effect}: {lost} were flagged as finished before (row 10)")
        self.flagged |= effect.finished
        if effect.scenario is Scenario.DRAIN:
            return
        for task in effect.finished:
            for source in self.world.sources(task):
                there = self.world.directories[source]
                open_ = source in self.started and source not in effect.finished and not there.drained
                written = there.latest is not None
                of, by = self.world.directories[source].spec.uid, self.world.directories[task].spec.uid
                written = written and (of, by) not in self.world.late
                demand(
                    not (open_ and written),
                    f"{effect}: {task} is finished and {source} upstream of it is not (row 10)",
                )

    def _terminates(self, told: str) -> None:
        self.terminated = True
        if self.canceled:
            return
        open_ = [t for t, life in self.lives.items() if not (life.closed or life.failed)]
        demand(not open_, f"the job terminates at {told}, and {open_} are not closed")
        if self.request is not None and not self.over_before_request:
            demand(self.request_completed, f"the job terminates at {told} without its savepoint (row 6)")

    # --- records --------------------------------------------------------------------------------------------

    def records(self, record: CheckpointRecord) -> None:
        """A checkpoint is a consistent cut: nothing in it comes from outside of it. What its sinks have up to
        it is committed or prepared for it.
        """
        world = self.world
        at: dict[str, int | None] = {}
        finished: set[str] = set()
        for stage in record.stages:
            for name, task in zip(world.plan.stages[stage.uid].tasks, stage.tasks, strict=True):
                at[name] = task.batch
                if task.finished:
                    finished.add(name)
                if name in world.sinks and task.batch is not None and stage.carried_from is None:
                    sink = world.sinks[name]
                    kept = {b for n in task.transactions for b in sink.prepared.get(int(n), ())}
                    have = set(sink.visible) | kept
                    lacks = set(range(task.batch + 1)) - have
                    demand(not lacks, f"checkpoint {record.checkpoint}: batches {lacks} of {name} in no sink")
                    more = {b for b in kept if b > task.batch}
                    demand(
                        not more, f"checkpoint {record.checkpoint}: batches {more} of {name} are not in it"
                    )
        for name, batch in at.items():
            there = world.directories[name]
            if batch is None:
                continue
            for source, upto in there.batches[batch].read.items():
                if source not in at:
                    continue  # an earlier epoch ran it, no record has it, and the script has yet to start it
                last = at[source]
                rows = sum(
                    len(b.rows)
                    for b in world.directories[source].batches[: (last if last is not None else -1) + 1]
                )
                demand(
                    upto <= rows,
                    f"checkpoint {record.checkpoint}: {name} has read {upto} rows of {source}, of {rows}",
                )

    # --- the end --------------------------------------------------------------------------------------------


def exactly_once(world: World) -> None:
    """ "We could always commit all the data for two-phase-commit sinks" once the job has drained: each row
    that was read is behind every path of the graph once, and nothing lingers.
    """
    for name, there in world.directories.items():
        spec = there.spec
        free = spec.uid in world.stopped or any(writer == spec.uid for writer, _ in world.late)
        for source in world.sources(name):
            unread = world.unread(name, source)
            if (world.directories[source].spec.uid, spec.uid) in world.late:
                continue
            demand(free or not unread, f"lost: {name} never reads {unread} of {source}")
        demand(free or not there.at.held, f"lost: {there.at.held} stay in the windows of {name}")
        got = sorted(there.rows + [(*row, spec.uid) for row in there.at.held])
        put = [(f"{name}.{n}",) for n in range(there.at.own)]
        for source in world.sources(name):
            rows = world.directories[source].rows[: there.at.read.get(source, 0)]
            put += [row for row in rows if _share(row, spec.parallelism) == there.index]
        demand(got == sorted((*row, spec.uid) for row in put), f"{name} wrote {got} of {put}")
        if name in world.sinks:
            sink = world.sinks[name]
            twice = [b for b, n in sink.visible.items() if n > 1]
            demand(not twice, f"batches {twice} of {name} are committed twice")
            lost = [b for b in range(len(there.batches)) if b not in sink.visible]
            rows = [row for b in lost for row in there.batches[b].rows]
            demand(not rows, f"lost: {rows} of {name} are never committed")
            demand(not sink.prepared, f"{name} leaves {sink.prepared} behind")


def _share(row: tuple[str, ...], of: int) -> int:
    return sum(map(ord, "".join(row))) % of
