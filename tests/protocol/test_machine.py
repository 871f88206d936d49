"""Random orders, repetitions, losses and failures against the oracle; and in the end everything terminates."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from streamjob.protocol import coordinator
from streamjob.protocol.coordinator import TerminationConflict
from streamjob.protocol.messages import Mode, Step, TerminationRequest
from tests.protocol.driver import ANSWERS, DRAIN, STOP, Driver
from tests.protocol.oracle import ANSWER_TO, Oracle

TASKS = ["a", "b", "c", "d"]
tasks = st.sampled_from(TASKS)
rarely = st.sampled_from([False, False, False, True])  # what cuts a run short must leave most runs long


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
        before = self.states()
        if event != "task_started":
            assert self.driver.tell(event, *args) == [], (event, args)
            assert self.states() == before
        return wanted

    def states(self) -> object:
        c = self.driver.c
        return repr(c.tasks), c.next_checkpoint, c.final_checkpoint, c.terminated, c.terminating

    def outstanding(self, effect: Any) -> bool:
        """Effects of a run that failed or was replaced are gone with it; the driver would not answer them."""
        task = getattr(effect, "task", None)
        return task is None or type(effect).__name__ in self.oracle.runs[task].asked

    @initialize(names=st.sets(tasks, min_size=1), early=rarely)
    def start(self, names: set[str], early: bool) -> None:
        if early:
            self.tell("termination_requested", STOP)
        for name in sorted(names):
            self.tell("task_started", name)

    @rule(name=tasks, now=rarely)
    def start_late(self, name: str, now: bool) -> None:
        if now:
            self.start_task(name)

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
        for _ in range(data.draw(st.integers(1, 8))):
            if self.driver.todo:
                i = data.draw(st.integers(0, len(self.driver.todo) - 1))
                self.answer(self.driver.todo.pop(i))

    def answer(self, effect: Any) -> None:
        if type(effect) in ANSWERS and self.outstanding(effect):
            event = ANSWERS[type(effect)](effect)
            if event != ("retry",):  # the only one that says anew what is to be done
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

    @precondition(lambda self: self.driver.todo)
    @rule(count=st.integers(1, 12))
    def carry_out_in_order(self, count: int) -> None:
        for _ in range(min(count, len(self.driver.todo))):
            self.answer(self.driver.todo.pop(0))

    @rule(name=tasks, event=st.sampled_from(sorted(ANSWER_TO)))
    def answer_what_was_not_asked(self, name: str, event: str) -> None:
        if name in self.oracle.runs and ANSWER_TO[event] not in self.oracle.runs[name].asked:
            assert (
                self.tell(event, name, *([3] if event in ("boundary_reached", "max_watermark_fired") else []))
                == []
            )

    @rule(request=st.sampled_from([STOP, DRAIN]), now=rarely)
    def request(self, request: TerminationRequest, now: bool) -> None:
        if now:
            self.tell("termination_requested", request)

    @rule()
    def all_inputs_end(self) -> None:
        for name in self.oracle.runs:
            self.tell("input_ended", name)

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

    @rule(name=tasks, now=rarely)
    def fail(self, name: str, now: bool) -> None:
        if now and name in self.oracle.runs:
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
            expected = run.data_ended_at is not None and run.why == "drain"
            assert run.failed or c.tasks[name].operators_finished == expected
            assert (str(c.tasks[name].step) == str(Step.CLOSED)) == run.closed
        assert c.next_checkpoint > max(self.oracle.stored, default=0)

    @invariant()
    def the_job_is_terminating_only_if_all_of_it_is(self) -> None:
        runs = self.oracle.runs.values()
        begun = self.oracle.request is not None or (bool(runs) and all(r.why for r in runs))
        assert self.driver.c.terminating == (begun and not self.driver.c.terminated)

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
    max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestJob = Job.TestCase
