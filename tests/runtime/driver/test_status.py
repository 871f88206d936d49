"""What the workers note of a job's end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import pytest

from streamjob.protocol.engine.coordinator import Coordinator
from streamjob.protocol.engine.events import TaskStarted, TerminationRequested
from streamjob.protocol.graph import TaskName
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_status import TerminationStep
from streamjob.runtime.driver.status import Notes, problem_of, stage_statuses
from streamjob.runtime.query.figures import Figures
from streamjob.runtime.spark.max_watermark.batch import DrainResult


@dataclass
class Run:
    name: TaskName
    figures: Figures = field(default_factory=Figures)

    def __post_init__(self) -> None:
        self.uid, self.task = self.name.uid, self.name.task


def drained(output_rows: int | None, state_rows_left: int | None) -> DrainResult:
    return DrainResult(7, 1, output_rows, 0.1, state_rows_left, timers_left=False)


@pytest.mark.parametrize(
    ("message", "reason"),
    [("Job aborted: java.io.IOException: No space left on device", "StorageFull"), ("a bug", "QueryFailed")],
)
def test_a_query_that_finds_no_room_says_so(message: str, reason: str) -> None:
    problem = problem_of(RuntimeError(message))
    assert (problem.reason, problem.retryable) == (reason, True)
    assert ("spec.storage.checkpoints" in problem.remedy) == (reason == "StorageFull")


def test_an_error_of_kafka_says_which_topics_and_brokers() -> None:
    """Kafka's own errors do not: the client may have several."""
    brokers = ["Kafka orders at kafka:9092"]
    lost = RuntimeError(
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: it failed\nCaused by: "
        "org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment."
    )
    assert problem_of(lost, "orders", brokers).message == (
        "orders: TimeoutException: Timed out waiting for a node assignment. (it failed); the query uses "
        "Kafka orders at kafka:9092"
    )
    assert problem_of(ValueError("no rate"), "orders", brokers).message == "orders: no rate"


def test_r7_what_stages_give_and_leave_is_summed() -> None:
    notes = Notes()
    assert (notes.flushed_rows, notes.state_rows_left) == (None, None)
    notes.drained(drained(None, None))
    assert (notes.flushed_rows, notes.state_rows_left) == (None, None), "nobody counts, so none is told"
    notes.drained(drained(5, 0))
    notes.drained(drained(None, 3))
    assert (notes.flushed_rows, notes.state_rows_left) == (5, 3)


def test_r7_stages_that_drain_at_once_are_all_summed() -> None:
    notes = Notes()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: notes.drained(drained(1, 2)), range(2000)))
    assert (notes.flushed_rows, notes.state_rows_left) == (2000, 4000)


def test_the_status_has_the_edges_and_the_step_of_each_task() -> None:
    coordinator = Coordinator()
    coordinator.handle(TaskStarted("copy"))
    coordinator.handle(TaskStarted("sums/0", upstream=("copy", "starts-later")))
    coordinator.handle(TaskStarted("sums/1", upstream=("copy",)))
    runs = [Run(TaskName("copy", "copy")), *(Run(TaskName("sums", "sums", i, 2)) for i in range(2))]
    by_task = {run.task: run for run in runs}
    copy, sums = stage_statuses(coordinator, by_task)
    assert (copy.upstream, sums.upstream) == ((), ("copy", "starts-later"))
    assert [t.step for t in (*copy.tasks, *sums.tasks)] == [None, None, None]

    request = TerminationRequest("drain-1", 1, Mode.DRAIN, "file:///s")
    coordinator.handle(TerminationRequested(request))
    copy, sums = stage_statuses(coordinator, by_task)
    assert [t.step for t in copy.tasks] == [TerminationStep.BOUNDARY]
    assert [t.step for t in sums.tasks] == [None, None], "a drain reaches them when copy has ended"
    plain = sums.without_figures
    assert (plain.upstream, plain.figures, [t.step for t in plain.tasks]) == ((), None, [None, None])
