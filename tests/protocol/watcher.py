"""What a watcher of a job with edges may demand, told from the outside: it sees events and effects, knows the edges that were
declared, and nothing of the engine. It raises AssertionError at the first effect that breaks V2, V3, V4, V6 or V8, or the order
along the edges.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Run:
    """One start of a query. `why`: None, "stop" or "drain", for as long as its end has not begun None."""

    stage: str
    commits: bool = True
    why: str | None = None
    input_over: bool = False  # "drain" because the input ended, not by request
    asked: list[str] = field(default_factory=list)
    ended_at: int | None = None
    skips_the_wait: bool = False
    failed: bool = False
    closed: bool = False
    covered: bool = False


@dataclass
class Seen:
    """One checkpoint: when it was triggered, which runs there were, who had ended, and what became of it."""

    at: int
    runs: dict[str, Run]
    ended: set[str]
    finished: frozenset[str]
    taken: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    request_id: str | None = None
    stored: bool = False
    durable: bool = False
    aborted: bool = False
    completed: bool = False


def stage_of(task: str) -> str:
    return task.partition("/")[0]


STEPS = ["end", "FireMaxWatermark", "Finish", "Close"]


class Watcher:
    def __init__(self, expected: tuple[str, ...] = ()) -> None:
        self.now = 0
        self.runs: dict[str, Run] = {}
        self.upstream: dict[str, set[str]] = {}  # of stages
        self.expected = set(expected)
        self.request: str | None = None
        self.requested_at = 0
        self.savepoints: set[str] = set()
        self.canceled = False
        self.seen: dict[int, Seen] = {}
        self.flags: set[str] = set()

    def watch(self, event: str, args: tuple[Any, ...], wanted: list[Any], **options: Any) -> None:
        self.now += 1
        self._take(event, args, options)
        for effect in wanted:
            number = getattr(effect, "number", None)
            name = type(effect).__name__
            if number is not None and number not in self.seen and "Timer" not in name:
                if name == "AbortCheckpoint":
                    continue  # every root was being flushed when it was triggered, so nobody has heard of it before
                self._triggered(number)
            getattr(self, "_" + name.lower())(event, args, effect)

    # --- events -----------------------------------------------------------------------------------------------

    def _take(self, event: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        take = getattr(self, "_take_" + event, None)
        if take:
            take(*args, **options)

    def _take_task_started(self, task: str, upstream: tuple[str, ...] = (), commits: bool = True) -> None:
        stage = stage_of(task)
        self.upstream.setdefault(stage, set()).update(upstream)
        self.expected.discard(task)
        self.runs[task] = Run(stage, commits)

    def _take_task_restored_finished(
        self, task: str, upstream: tuple[str, ...] = (), batch: int | None = None
    ) -> None:
        stage = stage_of(task)
        self.upstream.setdefault(stage, set()).update(upstream)
        self.expected.discard(task)
        self.runs[task] = Run(stage, why="drain", ended_at=0, closed=True, covered=True)

    def _take_termination_requested(self, request: Any) -> None:
        if self.request is None:
            self.request, self.requested_at = request.mode.value.lower(), self.now

    def _take_savepoint_requested(self, request_id: str, savepoint: str) -> None:
        self.savepoints.add(request_id)

    def _take_cancel_requested(self) -> None:
        self.canceled = True

    def _take_all_started(self) -> None:
        self.expected.clear()

    def _take_input_ended(self, task: str) -> None:
        run = self.runs[task]
        if run.why is None and not run.failed and not self._open_upstream(run.stage):
            run.why, run.input_over = "drain", True

    def _take_script_stopped(self, task: str) -> None:
        run = self.runs[task]
        run.why = run.why or (None if run.failed else "stop")

    def _take_task_failed(self, task: str) -> None:
        run = self.runs[task]
        if run.covered or run.skips_the_wait:
            run.closed = run.closed or "Close" in run.asked
            return
        run.failed = True
        for seen in self.seen.values():
            seen.aborted = seen.aborted or not seen.durable

    def _take_boundary_reached(self, task: str, batch: int | None) -> None:
        run = self.runs[task]
        if run.asked == ["end"] and run.why == "stop":
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
        if (
            seen
            and task in seen.asked
            and not flushing
            and seen.runs.get(task) is run
            and run.ended_at is None
        ):
            seen.taken.add(task)

    def _take_checkpoint_durable(self, number: int) -> None:
        seen = self.seen.get(number)
        if seen and seen.stored and not seen.aborted:
            seen.durable = True

    def _take_checkpoint_failed(self, number: int) -> None:
        seen = self.seen.get(number)
        if seen and not seen.durable:
            seen.aborted = True

    # --- what follows from the edges --------------------------------------------------------------------------

    def _tasks_before(self, stage: str) -> dict[str, Run]:
        return {t: r for t, r in self.runs.items() if r.stage in self.upstream.get(stage, ())}

    def _open_upstream(self, stage: str) -> bool:
        late = any(stage_of(t) in self.upstream.get(stage, ()) for t in self.expected)
        return late or any(r.ended_at is None or r.failed for r in self._tasks_before(stage).values())

    def _triggered(self, number: int) -> None:
        assert number > max(self.seen, default=0), "numbers grow"
        assert not self.canceled
        assert not self.expected, "a checkpoint without tasks that it must not lose"
        assert not any(r.failed for r in self.runs.values()), "a checkpoint with a failed task"
        finished = frozenset(t for t, r in self.runs.items() if r.ended_at is not None and r.why == "drain")
        for task in finished:
            for before, run in self._tasks_before(self.runs[task].stage).items():
                assert before in finished or run.failed, f"{task} is finished and {before} before it is not"
        assert finished >= self.flags, "V6: back to false"
        ended = {t for t, r in self.runs.items() if r.ended_at is not None}
        self.seen[number] = Seen(self.now, dict(self.runs), ended, finished)

    def _own(self, seen: Seen) -> bool:
        """It is the one that a termination waits for."""
        return seen.stored and seen.request_id == "r1" and seen.at >= self.requested_at

    # --- effects ----------------------------------------------------------------------------------------------

    def _step(self, task: str, name: str) -> Run:
        """V4 and V8: in order, once, only what the scenario has."""
        run = self.runs[task]
        assert not run.failed, f"{name} for {task}, which failed"
        assert not self.canceled, f"{name} after the cancel"
        due = STEPS if run.why == "drain" else ["end", "Close"]
        assert run.asked == due[: due.index(name)], f"V4: {name} for {task} after {run.asked}"
        run.asked.append(name)
        return run

    def _stopatboundary(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        run = self.runs[effect.task]
        if run.why is None:
            assert self.request, "an end that nobody wants"
            assert not self._tasks_before(run.stage), "a request tells the roots only"
            run.why = self.request
        self._step(effect.task, "end")

    def _catchup(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        run = self.runs[effect.task]
        before = self._tasks_before(run.stage)
        assert before, "nothing to catch up with"
        assert not self._open_upstream(run.stage), "EndOfData has not come from everywhere"
        assert run.why is None, "it ends already"
        stopped = any(r.why == "stop" for r in before.values())
        run.why = "stop" if stopped else self.request or "drain"
        run.input_over = not stopped and not self.request
        assert set(effect.upstream) == set(before)
        self._step(effect.task, "end")

    def _firemaxwatermark(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert (event, args[0]) == ("boundary_reached", effect.task)
        self._step(effect.task, "FireMaxWatermark")

    def _finish(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert (event, args[0]) == ("max_watermark_fired", effect.task)
        self._step(effect.task, "Finish")

    def _snapshot(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        seen, run = self.seen[effect.number], self.runs[effect.task]
        assert not seen.aborted
        assert run.ended_at is None, "it stands at its end"
        assert "FireMaxWatermark" not in run.asked, "a snapshot while it is flushed"
        assert effect.task not in seen.asked, "V8: asked twice"
        for before in self._tasks_before(run.stage):
            assert before in seen.ended | seen.taken, f"{effect.task} before the barrier of {before}"
        seen.asked.add(effect.task)

    def _storecheckpoint(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        seen = self.seen[effect.number]
        assert not seen.stored, "V8: stored twice"
        assert not seen.aborted
        assert seen.runs == self.runs, "it does not have every task"
        assert set(self.runs) == seen.ended | seen.taken, "a snapshot is missing"
        assert effect.finished == seen.finished, "V6"
        assert set(effect.batches) == set(self.runs)
        seen.stored, seen.request_id = True, effect.request_id
        if self.request and seen.at >= self.requested_at:
            assert effect.request_id == "r1" or effect.request_id in self.savepoints, (
                "periodic during a termination"
            )

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
        seen, run = self.seen[effect.number], self.runs[effect.task]
        assert seen.durable
        assert seen.runs[effect.task] is run
        assert not run.failed
        assert not run.closed
        self._complete(seen)

    def _complete(self, seen: Seen) -> None:
        if seen.completed:
            return
        seen.completed = True
        self.flags |= seen.finished
        for task in seen.ended:
            run = seen.runs[task]
            if self.request is None or self._own(seen):
                run.covered = True

    def _aborttransactions(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert event == "checkpoint_completed"
        assert effect.after == args[0]
        assert self.runs[effect.task].covered
        assert "Close" not in self.runs[effect.task].asked, "transactions are aborted before the close"

    def _close(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        if event == "checkpoint_completed":
            self._complete(self.seen[args[0]])
        run = self._step(effect.task, "Close")
        for before, other in self._tasks_before(run.stage).items():
            assert other.closed, f"EndOfPartition of {before} has not come"
        if run.skips_the_wait and not run.covered:
            after = [r for r in self.runs.values() if run.stage in self.upstream.get(r.stage, ())]
            assert all(r.ended_at is not None for r in after), "EndOfData has not been acknowledged"
        else:
            assert run.covered, "V2: no completed checkpoint has its end"

    def _cancel(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert self.canceled
        assert not self.runs[effect.task].closed

    def _terminated(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        if event == "checkpoint_completed":
            self._complete(self.seen[args[0]])
        if event != "cancel_requested":
            assert all(r.closed for r in self.runs.values()), "V2: a task is open"
            assert all(r.covered for r in self.runs.values()), "V2: an end is in no completed checkpoint"

    def _starttimer(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert effect.seconds > 0

    def _retrylater(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert event == "checkpoint_failed"
