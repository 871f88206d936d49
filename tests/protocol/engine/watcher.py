"""What a watcher of a job may demand, told from the outside: it sees events and effects, knows the edges that
were declared and whether the script continues, and nothing of the engine. It raises AssertionError at the
first effect that breaks V2, V3, V4, V6 or V8, or the order along the edges; and, when nothing is left to
happen, where somebody still waits. More than 600 lines: it is one observer, and shares no line with the
engine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from streamjob.protocol.lifecycle import Scenario


@dataclass(eq=False)
class Run:
    """One run of a query, or the one of the driver's own that flushes it.

    `why`: None, "stop" or "drain", for as long as its end has not begun None.

    :param own: it reads sources of its own; `own_over`: they have ended; `rest`: and what they hold is still
        to be processed.
    :param exhausted: it has ended by itself, and had taken all there was; or a drain has let it go.
    :param by_itself: the former.
    :param late: what has started upstream of it since a drain has flushed it. It is flagged all the same.
    """

    stage: str
    commits: bool = True
    own: bool = True
    own_over: bool = False
    rest: bool = False
    exhausted: bool = False
    by_itself: bool = False
    drained_before: bool = False
    emits: bool = True
    held: bool = False
    late: set[str] = field(default_factory=set)
    why: str | None = None
    input_over: bool = False  # "drain" because the input ended, not by request
    asked: list[str] = field(default_factory=list)
    catching_up: bool = False
    ended_at: int | None = None
    skips_the_wait: bool = False
    failed: bool = False
    closed: bool = False
    has_final_checkpoint: bool = False

    @property
    def finished(self) -> bool:
        return self.ended_at is not None and self.why == "drain"

    @property
    def paused(self) -> bool:
        return self.ended_at is not None and self.why == "stop" and not self.failed

    @property
    def runs(self) -> bool:
        return self.ended_at is None and not self.failed


@dataclass
class Seen:
    """One checkpoint: when it was triggered, which runs there were, who had ended, failed or finished, of
    whom an epoch can begin with that (`restorable`), and what became of it.
    """

    at: int
    runs: dict[str, Run]
    ended: set[str]
    failed: set[str]
    finished: frozenset[str]
    restorable: frozenset[str]
    uncovered: set[str]
    taken: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    request_id: str | None = None
    final: bool = False
    stored: bool = False
    durable: bool = False
    disowned: bool = False
    aborted: bool = False
    completed: bool = False


def stage_of(task: str) -> str:
    return task.partition("/")[0]


STEPS = ["end", "FireMaxWatermark", "Finish", "Close"]


class Watcher:
    def __init__(self, expected: Iterable[str] = (), edges: Iterable[tuple[str, str]] = ()) -> None:
        self.now = 0
        self.runs: dict[str, Run] = {}
        self.upstream: dict[str, set[str]] = {}  # of stages
        self.expected = set(expected)
        self.recorded = set(expected)  # those of them that the restored checkpoint has
        self.edges = set(edges)  # of the restored checkpoint, as (writer, reader)
        self.assumed: set[tuple[str, str]] = set()  # those of them that the script has not shown
        self.unconfirmed: set[tuple[str, str]] = set()  # nor when it waited: they count again in a drain
        self.waited = False  # the script has waited for what it had started
        self.declared: set[str] = set()  # shards that have not started
        self.started: set[str] = set()  # stages
        self.named: set[str] = set()  # stages that another one reads from, that have not started, and will
        self.request: str | None = None
        self.requested_at = 0
        self.announced = False  # a request that has yet to be taken up
        self.script_ended = False
        self.savepoints: set[str] = set()
        self.canceled = False
        self.seen: dict[int, Seen] = {}
        self.flags: set[str] = set()
        self.blocked_at = -1  # when the script was last said to wait for what it has started
        self.cut_short = False
        self.ended = False  # a final checkpoint has completed, and nothing has started since

    def watch(self, event: str, args: tuple[Any, ...], wanted: list[Any], **options: Any) -> None:
        self.now += 1
        take = getattr(self, "_take_" + event, None)
        if take:
            take(*args, **options)
        for effect in wanted:
            number = getattr(effect, "number", None)
            name = type(effect).__name__
            if number is not None and number not in self.seen and "Timer" not in name:
                if name == "AbortCheckpoint":
                    # every root was being flushed when it was triggered, so nobody has heard of it before
                    continue
                self._triggered(number)
            getattr(self, "_" + name.lower())(event, args, effect)

    # --- events ---------------------------------------------------------------------------------------------

    def _take_task_started(
        self,
        task: str,
        upstream: tuple[str, ...] = (),
        commits: bool = True,
        own_sources: bool | None = None,
        drained: bool = False,
        emits: bool = True,
    ) -> None:
        known = self.runs.get(task)
        if known is not None and known.failed and known.finished:
            known.failed = False  # it takes its place again
            self.ended = False
            self._disown()
            return
        if known is not None and (known.runs or known.finished):
            return
        stage = stage_of(task)
        self._joins(task, upstream)
        own = not self.upstream[stage] if own_sources is None else own_sources
        run = Run(stage, commits, own, own_over=drained, drained_before=drained, emits=emits)
        self.runs[task] = run
        if self.request is not None and known is None:
            for reader in self.after(stage):
                over = reader.why == "drain" and (reader.finished or not reader.failed)
                if over or reader.drained_before:
                    reader.late.add(task)
        self._disown()
        self.ended = False

    def _take_task_restored_finished(
        self, task: str, upstream: tuple[str, ...] = (), batch: int | None = None
    ) -> None:
        stage = stage_of(task)
        self._joins(task, upstream)
        if task not in self.runs:
            self.runs[task] = Run(stage, why="drain", ended_at=0, closed=True, has_final_checkpoint=True)
            self._disown()

    def _joins(self, task: str, upstream: Iterable[str]) -> None:
        stage = stage_of(task)
        self._reads(stage, upstream)
        self.expected.discard(task)
        self.recorded.discard(task)
        for writer, reader in [e for e in self.edges if e[1] == stage]:
            self.edges.discard((writer, reader))
            if writer not in self.upstream[stage]:
                self.assumed.add((writer, reader))
                self.upstream[stage].add(writer)
        self.declared.discard(task)
        self.started.add(stage)
        self.named.discard(stage)

    def _reads(self, stage: str, upstream: Iterable[str]) -> None:
        known = self.upstream.setdefault(stage, set())
        expected = {stage_of(t) for t in self.expected}
        for other in upstream:
            if other not in known and not self.script_ended and other not in self.started | expected:
                self.named.add(other)
            known.add(other)
            self.assumed.discard((other, stage))

    def reads(self, stage: str, upstream: str, *, own_sources: bool) -> None:
        """The stage, which has started, is found to read from one that is about to start."""
        self._reads(stage, (upstream,))
        for run in self._of(stage):
            run.own = own_sources

    def _take_stage_expected(self, uid: str, parallelism: int) -> None:
        missing = {f"{uid}/{i}" for i in range(parallelism) if f"{uid}/{i}" not in self.runs}
        gone = {t for t in self.expected if stage_of(t) == uid} - missing
        self.expected -= gone
        self.recorded -= gone
        self.expected |= missing
        self.declared |= missing
        self.named.discard(uid)

    def _take_edge_declared(self, uid: str, upstream: str, own_sources: bool = False) -> None:
        known = upstream in self.upstream.setdefault(uid, set())
        if not known or (upstream, uid) in self.assumed:
            self._reads(uid, (upstream,))
            for run in self._of(uid):
                run.own = own_sources
        if not known:
            self._disown()

    def _take_termination_announced(self) -> None:
        self.announced = self.request is None and not self.canceled

    def _take_termination_requested(self, request: Any) -> None:
        self.announced = False
        if self.request is None and not self.ended:
            self.request, self.requested_at = request.mode.value.lower(), self.now
            self.cut_short = self.request == "stop" and not self.script_ended
            for writer, reader in self.unconfirmed if self.request == "drain" else ():
                over = [r.drained_before or (r.why == "drain" and not r.failed) for r in self._of(reader)]
                if not all(over) and writer not in self.upstream[reader]:
                    self.upstream[reader].add(writer)
                    self.assumed.add((writer, reader))
            self._disown()

    def _take_savepoint_requested(self, request_id: str, savepoint: str) -> None:
        self.savepoints.add(request_id)

    def _take_cancel_requested(self) -> None:
        self.canceled = True

    def _take_script_blocked(self) -> None:
        self.blocked_at = self.now

    def _take_all_started(self, left: Iterable[str] = ()) -> None:
        self.recorded = {t for t in self.recorded if stage_of(t) in left}
        self.expected = set(self.recorded)
        self.declared.clear()
        self.named.clear()
        self.waited = True
        for writer, reader in list(self.assumed) if self.request is None and not self.canceled else ():
            if writer in self.started:
                self.assumed.discard((writer, reader))
                self.upstream[reader].discard(writer)
                self.unconfirmed.add((writer, reader))

    def _take_script_ended(self, left: Iterable[str] = ()) -> None:
        self.script_ended = True
        self._take_all_started()

    def _take_input_ended(self, task: str, rest: bool = False) -> None:
        run = self.runs[task]
        run.own_over, run.rest = True, rest

    def _take_run_ended(self, task: str, exhausted: bool, rest: bool = False) -> None:
        run = self.runs[task]
        if run.runs and not run.asked and run.why is None:
            if exhausted:
                run.exhausted = run.by_itself = run.own_over = True
                run.rest = rest
            missed = self.request == "drain" and self._script_is_missed(run.stage)
            if not exhausted:
                self._take_script_stopped(task)
            elif missed or (self.request is None and not self.script_ended):
                run.why = "stop"

    def _take_script_stopped(self, task: str) -> None:
        run = self.runs[task]
        if run.runs and (self.request is None or self._script_is_missed(run.stage)):
            run.why = run.why or "stop"

    def _take_task_failed(self, task: str) -> None:
        run = self.runs[task]
        if run.has_final_checkpoint or run.skips_the_wait:
            run.closed = run.closed or "Close" in run.asked
            return
        run.failed = True
        for seen in self.seen.values():
            seen.aborted = seen.aborted or not seen.durable
        self._disown()

    def _disown(self) -> None:
        """A final checkpoint that is durable does not have what there is now: it ends nothing."""
        for seen in self.seen.values():
            seen.disowned = seen.disowned or (seen.final and not seen.completed)

    def _take_boundary_reached(self, task: str, batch: int | None) -> None:
        run = self.runs[task]
        if run.asked == ["end"]:
            run.catching_up = False
            if run.why == "stop":
                self._data_ended(run)

    def _take_finished(self, task: str) -> None:
        run = self.runs[task]
        if run.asked == ["end", "FireMaxWatermark", "Finish"]:
            self._data_ended(run)

    def _data_ended(self, run: Run) -> None:
        if run.ended_at is None and not run.failed and not self.canceled:
            run.ended_at = self.now
            run.skips_the_wait = not run.commits and run.input_over and self.request is None

    def _take_closed(self, task: str) -> None:
        run = self.runs[task]
        run.closed = run.closed or "Close" in run.asked

    def _take_snapshot_taken(self, task: str, number: int, batch: int | None) -> None:
        seen = self.seen.get(number)
        run = self.runs[task]
        flushing = "FireMaxWatermark" in run.asked
        same = seen is not None and seen.runs.get(task) is run
        if seen and same and task in seen.asked and not flushing and run.ended_at is None:
            seen.taken.add(task)

    def _take_checkpoint_durable(self, number: int) -> None:
        seen = self.seen.get(number)
        if seen and seen.stored and not seen.aborted:
            seen.durable = True

    def _take_checkpoint_failed(self, number: int) -> None:
        seen = self.seen.get(number)
        if seen and not seen.durable:
            seen.aborted = True

    def _take_checkpoint_completed(self, number: int) -> None:
        seen = self.seen.get(number)
        if seen and seen.durable and not seen.disowned:
            self._complete(seen)

    # --- what follows from the edges ------------------------------------------------------------------------

    def _of(self, stage: str) -> list[Run]:
        return [r for r in self.runs.values() if r.stage == stage]

    def before(self, stage: str) -> dict[str, Run]:
        return {t: r for t, r in self.runs.items() if r.stage in self.upstream.get(stage, ())}

    def after(self, stage: str) -> list[Run]:
        return [r for r in self.runs.values() if stage in self.upstream.get(r.stage, ())]

    def _no_run_follows(self) -> bool:
        return self.request == "drain" or (self.request is None and self.script_ended)

    def _behind_stopped(self, stage: str) -> bool:
        """Upstream of it is something that the script has stopped, and more may come of
        it in another epoch.
        """
        runs = self.before(stage).values()
        return any(r.paused and (not r.exhausted or self._behind_stopped(r.stage)) for r in runs)

    def _awaits_flush(self, run: Run) -> bool:
        """It is exhausted, nothing follows of it, and nothing keeps it from being flushed in the end, or that
        is still open.
        """
        if not (run.paused and run.exhausted and self._no_run_follows()):
            return False
        ends = self.request == "drain" or not self._behind_stopped(run.stage)
        return ends or self.open_upstream(run.stage)

    def _yet_to_start(self, stage: str) -> bool:
        return not self.upstream.get(stage, set()).isdisjoint({*map(stage_of, self.expected), *self.named})

    def open_upstream(self, stage: str) -> bool:
        """More comes, or may come: who knows nothing of the script's plans has to wait."""
        late = self._yet_to_start(stage)
        runs = self.before(stage).values()
        if late or any(r.runs or r.failed or self._awaits_flush(r) for r in runs):
            return True
        return self.request is None and not self.script_ended and any(r.paused for r in runs)

    def runs_on_above(self, stage: str) -> bool:
        """Upstream of it is something that continues by itself, or that the script has to
        do something about.
        """
        if self._yet_to_start(stage):
            return True
        if not self.before(stage):
            return True  # what it reads has not started
        for run in self.before(stage).values():
            if run.failed or (run.paused and not run.exhausted):
                return True
            if run.runs and (not self.before(run.stage) or (run.own and not run.own_over)):
                return True
            if not run.finished and self._yet_to_start(run.stage):
                return True
            if not run.finished and self.before(run.stage) and self.runs_on_above(run.stage):
                return True
        return False

    def _script_is_missed(self, stage: str) -> bool:
        """Somewhere upstream is what the script has yet to start, or to start again."""
        before = self.upstream.get(stage, set())
        failed = any(r.failed for r in self.before(stage).values())
        return failed or self._yet_to_start(stage) or any(map(self._script_is_missed, before))

    def _flushed_readers(self, run: Run) -> list[Run]:
        """Those that would miss what its end brings out."""
        flushed = [
            r
            for r in self.after(run.stage)
            if r.drained_before or (r.why == "drain" and (r.finished or not r.failed))
        ]
        flushed = [r for r in flushed if not (r.input_over and (run.stage, r.stage) in self.assumed)]
        return flushed if run.emits and not run.drained_before else []

    def _finished_now(self) -> frozenset[str]:
        """What has finished, and all that is upstream of it.

        Of what is behind something that has not, nobody could go on.
        """
        done = {t for t, r in self.runs.items() if r.finished}
        while True:
            kept = {t for t in done if t in self.flags or self._restorable(t, done)}
            if kept == done:
                return frozenset(done)
            done = kept

    def _restorable(self, task: str, done: set[str]) -> bool:
        run = self.runs[task]
        return set(self.before(run.stage)) - run.late <= done or run.ended_at == 0

    def _triggered(self, number: int) -> None:
        assert number > max(self.seen, default=0), "numbers grow"
        assert self.started.isdisjoint(map(stage_of, self.declared)), "a stage of another parallelism"
        assert not self.canceled
        ended = {t for t, r in self.runs.items() if r.ended_at is not None and (not r.failed or r.finished)}
        finished = frozenset(t for t, r in self.runs.items() if r.finished)
        failed = {t for t, r in self.runs.items() if r.failed}
        uncovered = {t for t in ended if not self.runs[t].has_final_checkpoint}
        runs = dict(self.runs)
        self.seen[number] = Seen(self.now, runs, ended, failed, finished, self._finished_now(), uncovered)

    def _own(self, seen: Seen) -> bool:
        """It is one that ends tasks. In a stop only the one that the stop waits for."""
        if self.request != "stop":
            return True
        return seen.stored and seen.request_id == "r1" and seen.at >= self.requested_at

    # --- effects: ends --------------------------------------------------------------------------------------

    def _step(self, task: str, name: str) -> Run:
        """V4 and V8: in order, once, only what the scenario has."""
        run = self.runs[task]
        assert not run.failed, f"{name} for {task}, which failed"
        assert not self.canceled, f"{name} after the cancel"
        due = STEPS if run.why == "drain" else ["end", "Close"]
        assert name in due, f"V4: {name} for {task} in a stop"
        assert run.asked == due[: due.index(name)], f"V4: {name} for {task} after {run.asked}"
        run.asked.append(name)
        return run

    def _reopened(self, task: str) -> Run:
        """The run that is meant. Where the last one of the script has ended, it is one that flushes it."""
        run = self.runs[task]
        if not (run.paused and run.exhausted):
            return run
        assert not self.announced, "it may be a stop that follows"
        assert self._no_run_follows() or self.blocked_at >= (run.ended_at or 0), f"{task} may run again"
        flush = Run(
            run.stage, run.commits, run.own, own_over=True, exhausted=True, why="drain", rest=run.rest
        )
        flush.input_over = self.request is None
        flush.drained_before, flush.by_itself = run.drained_before, run.by_itself
        self.runs[task] = flush
        for seen in self.seen.values():
            seen.aborted = seen.aborted or not seen.durable  # it has the task where it is no longer
        self._disown()
        return flush

    def _stopatboundary(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        task = effect.task
        run = self._reopened(task)
        before = self.before(run.stage)
        if self.request == "stop" and run.catching_up:
            run.why, run.catching_up = "stop", False  # it is cut short
            return
        if run.why is None:
            assert not self.announced, "it may be a stop that follows"
            if self.request == "stop" or (self.request == "drain" and self._flushed_readers(run)):
                run.why = "stop"
            elif self.request == "drain" and self._script_is_missed(run.stage):
                assert self.waited, "the script may be about to start it"
                assert not self.script_ended, "the script starts nothing any more"
                run.why = "stop"
                run.exhausted = run.held = True  # it is flushed when the script has started the rest
            else:
                assert self.request or run.own_over, "an end that nobody wants"
                assert not run.rest or self.request, "it has a rest to process"
                run.why, run.input_over = "drain", self.request is None
        if run.why == "drain":
            assert not before, "it has to catch up"
            assert not self._reads_stages(run), "it has to catch up"
        self._step(task, "end")

    def _reads_stages(self, run: Run) -> bool:
        return bool(self.upstream.get(run.stage))

    def _catchup(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert self.request != "stop", "a stop works off no backlog"
        assert not self.announced, "it may be a stop that follows"
        was_open = self.open_upstream(self.runs[effect.task].stage)
        run = self._reopened(effect.task)
        before = self.before(run.stage)
        assert run.why is None or run.exhausted, "it ends already"
        assert not was_open, "EndOfData has not come from everywhere"
        assert before or run.rest or self._reads_stages(run), "nothing to catch up with"
        paused = any(r.paused for r in before.values())
        if self.request is None:
            assert run.own_over or not run.own, "its own sources have not ended"
            assert not (paused and run.why == "drain"), "what upstream has yet to send would be lost"
        run.why = "stop" if paused and self.request is None else "drain"
        run.input_over = run.why == "drain" and self.request is None
        run.catching_up = True
        assert set(effect.upstream) == set(before)
        self._step(effect.task, "end")

    def _firemaxwatermark(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert (event, args[0]) == ("boundary_reached", effect.task)
        self._step(effect.task, "FireMaxWatermark")

    def _finish(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert (event, args[0]) == ("max_watermark_fired", effect.task)
        self._step(effect.task, "Finish")

    def _close(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        if event == "checkpoint_completed":
            self._complete(self.seen[args[0]])
        run = self._step(effect.task, "Close")
        if (run.finished and not run.drained_before) or self.request == "stop":
            for before, other in self.before(run.stage).items():
                assert other.closed or other.failed, f"EndOfPartition of {before} has not come"
        if run.skips_the_wait and not run.has_final_checkpoint:
            after = self.after(run.stage)
            assert not any(r.runs or r.failed for r in after), "EndOfData has not been acknowledged"
        else:
            assert run.has_final_checkpoint, "V2: no completed checkpoint has its end"

    # --- effects: checkpoints -------------------------------------------------------------------------------

    def _snapshot(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        seen, run = self.seen[effect.number], self.runs[effect.task]
        assert not seen.aborted
        assert seen.runs[effect.task] is run
        assert run.ended_at is None, "it stands at its end"
        assert "FireMaxWatermark" not in run.asked, "a snapshot while it is flushed"
        assert effect.task not in seen.asked, "V8: asked twice"
        for before in self.before(run.stage):
            there = seen.ended | seen.taken | seen.failed
            assert before in there, f"{effect.task} before the barrier of {before}"
        seen.asked.add(effect.task)

    def _storecheckpoint(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        seen = self.seen[effect.number]
        assert not seen.stored, "V8: stored twice"
        assert not seen.aborted
        assert seen.runs == self.runs, "it has runs that are over, or not those that go on"
        assert seen.failed == {t for t, r in self.runs.items() if r.failed}
        assert set(self.runs) == seen.ended | seen.taken | seen.failed, "a snapshot is missing"
        assert set(effect.batches) == seen.ended | seen.taken
        failed = {t for t in seen.failed if self.runs[t].commits}
        assert set(effect.pre_commit) == seen.uncovered | failed, "what has ended or failed is pre-committed"
        seen.stored, seen.request_id, seen.final = True, effect.request_id, effect.scenario is not None
        self._flags(seen, effect)
        if seen.final:
            assert (effect.scenario == Scenario.STOP) == (self.cut_short or not self._all_finished(seen))
            assert not seen.taken, "the job ends when a task runs"
            assert self.request == "stop" or (self.script_ended and not seen.failed), "the script continues"
            assert effect.request_id == ("r1" if self.request else None)
        elif self.request and seen.at >= self.requested_at:
            assert self.request == "drain", "a stop has one checkpoint"
            assert effect.request_id is None

    def _all_finished(self, seen: Seen) -> bool:
        return self.request == "drain" or seen.finished == set(self.runs)

    def _flags(self, seen: Seen, effect: Any) -> None:
        """V6, and row 10: an epoch can begin with it."""
        assert effect.finished <= seen.finished, "V6: flagged and not finished"
        assert effect.finished >= self.flags & set(self.runs), "V6: back to false"
        if effect.scenario == Scenario.DRAIN:
            assert effect.finished == seen.finished
            return
        for task in effect.finished - self.flags:
            assert task in seen.restorable, f"{task} is finished, and not all before it"
        for task in seen.restorable - effect.finished:
            run = seen.runs[task]
            behind = set(self.before(run.stage)) <= effect.finished
            assert run.drained_before or not behind, "V6: finished, and not flagged"

    def _announcecheckpoint(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert (event, args) == ("checkpoint_durable", (effect.number,))
        assert self.seen[effect.number].durable

    def _abortcheckpoint(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        seen = self.seen[effect.number]
        assert not seen.durable, "what is durable cannot be aborted"
        assert effect.reason
        seen.aborted = True

    def _notifycomplete(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert (event, args) == ("checkpoint_completed", (effect.number,)), "V2: only the index completes"
        seen = self.seen[effect.number]
        assert seen.durable
        assert effect.task in seen.runs
        assert not self.runs[effect.task].closed or effect.task in seen.failed
        self._complete(seen)

    def _complete(self, seen: Seen) -> None:
        if seen.completed:
            return
        seen.completed = True
        if seen.final and seen.at >= self.requested_at:
            self.ended = True
        for task in seen.ended - seen.failed:
            seen.runs[task].has_final_checkpoint = seen.runs[task].has_final_checkpoint or self._own(seen)

    def _aborttransactions(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert event == "checkpoint_completed"
        assert effect.after == args[0]
        assert self.runs[effect.task].has_final_checkpoint
        assert "Close" not in self.runs[effect.task].asked, "transactions are aborted before the close"

    def _cancel(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert self.canceled
        assert not self.runs[effect.task].closed

    def _terminated(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        if event == "checkpoint_completed":
            self._complete(self.seen[args[0]])
        if event != "cancel_requested":
            assert self.over(), "V2: a task is open"

    def _starttimer(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert effect.seconds > 0

    def _retrylater(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert event == "checkpoint_failed"

    # --- when nothing is left to happen ---------------------------------------------------------------------

    def over(self) -> bool:
        """The job has come to its end."""
        runs = self.runs.values()
        if not all(r.closed or (r.failed and self.request == "stop") for r in runs):
            return False
        return self.ended

    def nobody_waits_in_vain(self, terminated: bool) -> None:
        """Everything that was asked for has been carried out, and every answer and every notification has
        come.
        """
        runs = self.runs
        if not runs or self.canceled:
            return
        if self.request == "stop":
            assert terminated, "the stop does not end"
            return
        assert not any(r.runs and r.asked for r in runs.values()), "an end that has begun is not over"
        for task, run in runs.items():
            if run.runs and self.request == "drain":
                assert self.open_upstream(run.stage), f"{task} is not told that the job drains"
                held = self.waited and not self.script_ended and self._script_is_missed(run.stage)
                assert not held, f"{task} waits for the script, which may wait for it"
            reads_stages = bool(self.before(run.stage)) and not run.own
            if run.runs and self.request is None and (run.own_over or reads_stages):
                assert self.open_upstream(run.stage), f"{task} is not told that its input has ended"
            assert not self._awaits_flush(run) or self.open_upstream(run.stage), f"{task} is not flushed"
            if run.ended_at is not None and not run.failed and not self.script_ended:
                awaited = self.request is None or run.commits
                assert run.closed or not awaited, f"somebody waits for {task}"
        if self.script_ended and not any(r.runs or r.failed for r in runs.values()):
            assert terminated, "the job does not end"
