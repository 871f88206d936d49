"""What a watcher of a job may demand, told from the outside: it sees events and effects and knows no states.

It keeps one `Run` for each start of a query and a journal of checkpoints, and raises AssertionError at the first
effect that breaks V2, V3, V4, V6 or V8. Nothing of the coordinator is used here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Run:
    """One start of a query. `why`: None, "stop" or "drain" (also at the end of the input), whichever came first."""

    why: str | None = None
    asked: list[str] = field(default_factory=list)  # effects of this run, by name
    answered: set[str] = field(default_factory=set)
    data_ended_at: int | None = None
    failed: bool = False
    notified: int | None = None
    closed: bool = False


ORDER = {
    "stop": ["StopAtBoundary", "NotifyComplete", "Close"],
    "drain": ["StopAtBoundary", "FireMaxWatermark", "Finish", "NotifyComplete", "Close"],
}
ANSWER_TO = {
    "boundary_reached": "StopAtBoundary",
    "max_watermark_fired": "FireMaxWatermark",
    "finished": "Finish",
    "closed": "Close",
}


class Oracle:
    def __init__(self) -> None:
        self.now = 0
        self.runs: dict[str, Run] = {}
        self.request: str | None = None
        self.requested_at = 0
        self.stored: dict[int, tuple[int, frozenset[str]]] = {}  # number → when, finished
        self.durable: set[int] = set()
        self.announced: set[int] = set()
        self.failed: set[int] = set()
        self.flags: set[str] = set()  # finished in a checkpoint that completed

    def watch(self, event: str, args: tuple[Any, ...], wanted: list[Any]) -> None:
        """An event was told and `wanted` came back."""
        self.now += 1
        self._take(event, args)
        notified = {e.task: e.number for e in wanted if type(e).__name__ == "NotifyComplete"}
        for effect in wanted:
            check = getattr(self, "_" + type(effect).__name__.lower(), None)
            if check:
                check(event, args, effect)
            else:
                self._step_of_a_task(effect)
        if notified:
            waiting = {n for n, r in self.runs.items() if r.data_ended_at is not None and not r.closed}
            assert {n for n in waiting if self.runs[n].notified == args[0]} >= set(notified)
            unserved = {n for n in waiting if self.runs[n].notified is None}
            assert not unserved, f"V3: {unserved} did not complete checkpoint {args[0]} with {set(notified)}"

    def _take(self, event: str, args: tuple[Any, ...]) -> None:
        if event == "task_started":
            run = self.runs.get(args[0])
            stopped = run and run.data_ended_at is not None and run.why == "stop"
            if run is None or run.failed or stopped:
                self.runs[args[0]] = Run(why=self.request)
        elif event == "termination_requested" and self.request is None:
            self.request = "drain" if args[0].mode.value == "Drain" else "stop"
            self.requested_at = self.now
            for run in self.runs.values():
                run.why = run.why or (None if run.failed else self.request)
        elif event in ("input_ended", "script_stopped"):
            run = self.runs[args[0]]
            run.why = run.why or (None if run.failed else "stop" if event == "script_stopped" else "drain")
        elif event == "task_failed":
            run = self.runs[args[0]]
            run.failed = run.failed or run.notified is None
            run.closed = run.closed or run.notified is not None
        elif event in ANSWER_TO:
            run = self.runs[args[0]]
            if ANSWER_TO[event] in run.asked and not run.failed:
                run.answered.add(ANSWER_TO[event])
                last = "Finish" if run.why == "drain" else "StopAtBoundary"
                if ANSWER_TO[event] == last and run.data_ended_at is None:
                    run.data_ended_at = self.now
                run.closed = run.closed or event == "closed"
        elif event == "checkpoint_durable" and args[0] in self.stored and args[0] not in self.failed:
            self.durable.add(args[0])
        elif event == "checkpoint_failed" and args[0] in self.stored and args[0] not in self.durable:
            self.failed.add(args[0])

    def _step_of_a_task(self, effect: Any) -> None:
        """V4 and V8: in order, once, only what the scenario has, and each after the answer to the one before."""
        run = self.runs[effect.task]
        name = type(effect).__name__
        assert not run.failed, f"{name} for {effect.task}, which failed"
        assert run.why, f"{name} for {effect.task}, whose end nobody wants"
        assert name in ORDER[run.why], f"{name} in a {run.why}"
        expected = ORDER[run.why][len(run.asked)] if len(run.asked) < len(ORDER[run.why]) else "nothing"
        assert name == expected, f"V4: {name} for {effect.task}, due is {expected}"
        if run.asked and run.asked[-1] != "NotifyComplete":
            assert run.asked[-1] in run.answered, f"V4: {name} before {run.asked[-1]} was done"
        run.asked.append(name)

    def _storecheckpoint(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert effect.number not in self.stored, "V8: a number is used once"
        assert effect.number > max(self.stored, default=0)
        for name, run in self.runs.items():
            assert run.data_ended_at is not None, f"snapshot while the data of {name} flows"
            assert not run.failed, f"snapshot without {name}, which failed"
        finished = {n for n, r in self.runs.items() if r.why == "drain"}
        assert effect.finished == finished, "V6: finished is what finish() was called for and returned"
        assert effect.finished >= self.flags, "V6: back to false"
        self.stored[effect.number] = (self.now, effect.finished)

    def _retrylater(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert event == "checkpoint_failed"
        assert args[0] in self.failed, "nothing failed that could be tried again"

    def _announcecheckpoint(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert effect.number in self.durable, "announced before it was durable"
        assert effect.number not in self.announced, "V8: announced twice"
        self.announced.add(effect.number)

    def _notifycomplete(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert (event, args) == ("checkpoint_completed", (effect.number,)), "V2: only the index completes"
        self._step_of_a_task(effect)
        run = self.runs[effect.task]
        assert effect.number in self.durable, "V2: it can still be lost"
        assert effect.number == max(self.stored), "V3: a newer one is under way"
        when, finished = self.stored[effect.number]
        assert run.data_ended_at is not None
        assert run.data_ended_at <= when, "V2: triggered before the end of the data"
        assert when >= self.requested_at, "V3: exactly that one, not one from before the request"
        run.notified = effect.number
        self.flags |= finished

    def _terminated(self, event: str, args: tuple[Any, ...], effect: Any) -> None:
        assert event in ("closed", "task_failed")
        assert all(r.closed for r in self.runs.values()), "V2: a task is still open"
