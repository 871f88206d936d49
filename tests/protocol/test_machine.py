"""Random orders, repetitions, losses and failures against the oracle; and in the end everything terminates."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamjob.protocol import coordinator
from streamjob.protocol.coordinator import TerminationConflict
from streamjob.protocol.messages import Mode, TerminationRequest
from tests.protocol.driver import ANSWERS, DRAIN, STOP, Driver
from tests.protocol.oracle import Oracle

TASKS = ["a", "b", "c", "d"]
tasks = st.sampled_from(TASKS)


class Job(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.oracle = Oracle()
        self.driver = Driver(coordinator)
        self.lost: list[Any] = []
        self.answered: list[tuple[Any, ...]] = []  # the events of all runs that are still the current ones

    def tell(self, event: str, *args: Any) -> list[Any]:
        wanted = self.driver.tell(event, *args)
        self.oracle.watch(event, args, wanted)
        # V8: the same once more has no effect. Only its first answer is the driver's to remember.
        before = copy.deepcopy(self.driver.c)
        if event != "task_started":
            assert self.driver.tell(event, *args) == [], (event, args)
            assert self.driver.c == before
        return wanted

    def outstanding(self, effect: Any) -> bool:
        """Effects of a run that failed or was replaced are gone with it; the driver would not answer them."""
        task = getattr(effect, "task", None)
        return task is None or type(effect).__name__ in self.oracle.runs[task].asked

    @initialize(names=st.sets(tasks, min_size=1), early=st.booleans())
    def start(self, names: set[str], early: bool) -> None:
        if early:
            self.tell("termination_requested", STOP)
        for name in sorted(names):
            self.tell("task_started", name)

    @rule(name=tasks)
    def start_task(self, name: str) -> None:
        known = self.oracle.runs.get(name)
        self.tell("task_started", name)
        if self.oracle.runs[name] is not known:
            self.lost = [e for e in self.lost if getattr(e, "task", None) != name]
            self.driver.todo = [e for e in self.driver.todo if getattr(e, "task", None) != name] + [
                e for e in self.driver.todo if getattr(e, "task", None) == name and self.outstanding(e)
            ]
            self.answered = [a for a in self.answered if a[1] != name]

    @precondition(lambda self: self.driver.todo)
    @rule(data=st.data())
    def carry_out(self, data: st.DataObject) -> None:
        i = data.draw(st.integers(0, len(self.driver.todo) - 1))
        self.answer(self.driver.todo.pop(i))

    def answer(self, effect: Any) -> None:
        if type(effect) in ANSWERS and self.outstanding(effect):
            event = ANSWERS[type(effect)](effect)
            self.answered.append(event)
            self.tell(*event)

    @precondition(lambda self: self.driver.todo)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        i = data.draw(st.integers(0, len(self.driver.todo) - 1))
        self.lost.append(self.driver.todo.pop(i))

    @precondition(lambda self: self.answered)
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        event = data.draw(st.sampled_from(self.answered))
        assert self.tell(*event) == []

    @rule(request=st.sampled_from([STOP, DRAIN]))
    def request(self, request: TerminationRequest) -> None:
        self.tell("termination_requested", request)

    @rule()
    def another_request(self) -> None:
        if self.oracle.request:
            try:
                self.driver.tell("termination_requested", TerminationRequest("r2", 1, Mode.STOP))
            except TerminationConflict:
                return
            raise AssertionError("two requests")

    @rule(name=tasks, event=st.sampled_from(["input_ended", "script_stopped"]))
    def ends_by_itself(self, name: str, event: str) -> None:
        if name in self.oracle.runs:
            self.tell(event, name)

    @rule(name=tasks)
    def fail(self, name: str) -> None:
        if name in self.oracle.runs:
            self.tell("task_failed", name)

    @rule(number=st.integers(0, 6), event=st.sampled_from(["failed", "completed"]))
    def checkpoint(self, number: int, event: str) -> None:
        """The index and the storage may speak of any number at any time."""
        if event == "failed":
            stored = [e for e in self.driver.todo if getattr(e, "number", None) == number]
            self.driver.todo = [
                e for e in self.driver.todo if e not in stored or number in self.oracle.durable
            ]
        self.tell(f"checkpoint_{event}", number)

    @rule()
    def retry(self) -> None:
        self.tell("retry")

    @invariant()
    def says_what_the_watcher_saw(self) -> None:
        c, runs = self.driver.c, self.oracle.runs
        assert c.terminated == (bool(runs) and all(r.closed for r in runs.values()))
        assert set(c.tasks) == set(runs)
        for name, run in runs.items():
            assert (c.tasks[name].state.value == "Failed") == run.failed
            assert (c.tasks[name].state.value == "Closed") == run.closed
        assert c.next_checkpoint > max(self.oracle.stored, default=0)

    def teardown(self) -> None:
        """Liveness: failed queries are started again, what was lost is carried out after all: it comes to its end."""
        if not self.oracle.runs:
            return
        for name, run in list(self.oracle.runs.items()):
            if run.failed:
                self.start_task(name)
        self.tell("termination_requested", DRAIN)
        self.driver.todo += self.lost
        for _ in range(100):
            if not self.driver.todo:
                self.tell("retry")
            if not self.driver.todo:
                break
            self.answer(self.driver.todo.pop(0))
        assert self.driver.c.terminated, self.driver.states()
        assert not self.driver.c.terminating


Job.TestCase.settings = settings(
    max_examples=250, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestJob = Job.TestCase
