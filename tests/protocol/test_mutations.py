"""Seeded protocol bugs: each one is a mistake somebody could make, and a named case must notice it."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import ModuleType

import pytest
from streamjob.protocol import coordinator, lifecycle

from tests.protocol import test_coordinator

# what is broken, file, old text, new text
MUTATIONS = [
    (
        "max watermark on a stop",
        coordinator,
        "if t.scenario.is_drain:\n            t.step",
        "if True:\n            t.step",
    ),
    ("no max watermark on a drain", coordinator, "if t.scenario.is_drain:\n            t.step", "if False:\n            t.step"),
    ("sources that ran out are not drained", lifecycle, "return self is not Scenario.STOP", "return self is Scenario.DRAIN"),
    ("finish() before the max watermark", coordinator, " or not t.finishing", ""),
    ("finish() twice", coordinator, " or t.finishing", ""),
    ("closed as soon as durable", coordinator, "or not self.pending.durable:", "or False:"),
    ("any checkpoint ends a stop", coordinator, "self.pending.number != number or not self.pending.durable", "not self.pending.durable"),
    ("durable of an old number", coordinator, "self.pending.number != number or self.pending.durable", "self.pending.durable"),
    (
        "an earlier checkpoint ends a stop",
        coordinator,
        "self.request = request\n        self._give_up_checkpoint()",
        "self.request = request",
    ),
    (
        "a checkpoint from before its start ends a task",
        coordinator,
        "self.tasks[task] = Task()\n        self._give_up_checkpoint()",
        "self.tasks[task] = Task()",
    ),
    ("failed durable checkpoint", coordinator, "number == number and not self.pending.durable", "number == number"),
    (
        "failed checkpoint is never given up",
        coordinator,
        "not self.pending.durable:\n            self._give_up_checkpoint()",
        "not self.pending.durable:\n            pass",
    ),
    ("a number is used twice", coordinator, "self.next_checkpoint += 1", "pass"),
    ("final checkpoint before all have ended", coordinator, " or any(t.state not in ended for t in self.tasks.values())", ""),
    ("final checkpoint without the failed", coordinator, "TaskState.FINISHED, TaskState.CLOSED)", "TaskState.FINISHED, TaskState.CLOSED, TaskState.FAILED)"),
    ("two final checkpoints at once", coordinator, "if self.pending or not", "if not"),
    ("the second task is left waiting", coordinator, "effects += [NotifyComplete(name, number), Close(name)]", "return [NotifyComplete(name, number), Close(name)]"),
    ("closed without a notification", coordinator, "[NotifyComplete(name, number), Close(name)]", "[Close(name)]"),
    ("closed before the notification", coordinator, "[NotifyComplete(name, number), Close(name)]", "[Close(name), NotifyComplete(name, number)]"),
    ("finished goes back to false", coordinator, "ended = self.operator is not OperatorState.RUNNING", "ended = self.operator is OperatorState.FINISHED"),
    ("a stopped operator counts as finished", coordinator, "return ended and self.scenario is not None and self.scenario.is_drain", "return ended or self.state is not TaskState.RUNNING"),
    ("a stop finishes operators", lifecycle, "Event.END_OF_DATA: OperatorState.RUNNING,", "Event.END_OF_DATA: OperatorState.FINISHED,"),
    ("the same request works twice", coordinator, "if self.request.request_id == request.request_id:\n                return []", "if self.request.request_id == request.request_id:\n                return [StopAtBoundary(n) for n in self.tasks]"),
    ("another request replaces the first", coordinator, "if self.request is not None:\n            if", "if self.request is not None and False:\n            if"),
    ("tasks that start later run on", coordinator, "if self.request else []", "if False else []"),
    ("a duplicate start resets the task", coordinator, "if known is not None and not known.can_start_again:", "if False:"),
    ("a finished task is started again", coordinator, "and not self.operators_finished", ""),
    ("what the script stopped never starts again", coordinator, "and not self.operators_finished", "and False"),
    ("the script's stop drains", coordinator, "return self._end(task, Scenario.STOP)", "return self._end(task, Scenario.DRAIN)"),
    ("the end begins twice", coordinator, "if task.state is not TaskState.RUNNING or task.step is not None:", "if False:"),
    ("failed tasks are ended", coordinator, "if task.state is not TaskState.RUNNING or task.step is not None:", "if task.step is not None:"),
    ("failed tasks go on", coordinator, "return task.state is TaskState.RUNNING and task.step is step", "return task.step is step"),
    ("a failure while waiting is overlooked", coordinator, "Event.FAIL)\n            self._give_up_checkpoint()", "Event.FAIL)"),
    ("a close that throws hangs the job", coordinator, "return self.closed(task)", "return []"),
    ("terminated with the first task", coordinator, "and all(t.state is TaskState.CLOSED", "and any(t.state is TaskState.CLOSED"),
    ("terminated without a task", coordinator, "return bool(self.tasks) and all(", "return all("),
    ("one ended input is a termination", coordinator, "bool(self.tasks) and all(t.step for", "bool(self.tasks) and any(t.step for"),
    ("steps of closed tasks go back", coordinator, "for task in self._waiting().values():\n            task.step = Step.COMPLETING", "for task in self.tasks.values():\n            task.step = Step.COMPLETING"),
    ("the batch of the max watermark is not kept", coordinator, "t.batch = batch\n        t.finishing = True", "t.finishing = True"),
]  # fmt: skip

CASES = {n: f for n, f in inspect.getmembers(test_coordinator, inspect.isfunction) if n.startswith("test_")}


def mutated(target: ModuleType, old: str, new: str) -> ModuleType:
    """The coordinator, built anew from the text of its module (and of the table) with one place changed."""
    names = {lifecycle.__name__: lifecycle, coordinator.__name__: coordinator}
    built: dict[str, ModuleType] = {}
    try:
        for name, module in names.items():  # the table first: the coordinator imports it
            text = Path(str(module.__file__)).read_text()
            if module is target:
                assert text.count(old) >= 1, f"nothing to change: {old!r} is not in {name}"
                text = text.replace(old, new)
            built[name] = sys.modules[name] = ModuleType(name)
            built[name].__package__ = module.__package__
            exec(compile(text, str(module.__file__), "exec"), built[name].__dict__)
    finally:
        sys.modules.update(names)
    return built[coordinator.__name__]


def failing(module: ModuleType) -> list[str]:
    failed = []
    for name, case in CASES.items():
        try:
            case(module)
        except (Exception, pytest.fail.Exception):
            failed.append(name)
    return failed


def test_no_false_alarm() -> None:
    assert failing(mutated(coordinator, "import", "import")) == []


@pytest.mark.parametrize(("target", "old", "new"), [m[1:] for m in MUTATIONS], ids=[m[0] for m in MUTATIONS])
def test_noticed(target: ModuleType, old: str, new: str) -> None:
    assert failing(mutated(target, old, new)), "no case noticed"


def test_a_mutation_that_matches_nothing_is_an_error() -> None:
    with pytest.raises(AssertionError, match="nothing to change"):
        mutated(coordinator, "no such text", "")
