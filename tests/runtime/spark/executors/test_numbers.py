"""The number of executors in the driver: what was asked for, what Spark is told, what the status says."""

from __future__ import annotations

from typing import Any

import pytest

from streamjob.protocol.messages.driver_status import DriverPhase, DriverStatus, ExecutorsStatus, Problem
from streamjob.runtime.driver.status_board import StatusBoard
from streamjob.runtime.spark.executors.numbers import EXECUTOR_GRACE, RECENT, TRIES, Executors, at_start

STATIC = {"spark.executor.instances": "2"}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "4",
}


class FakePool:
    """Executors that come and go at once."""

    def __init__(self) -> None:
        self.running, self.told = 2, list[tuple[int, int]]()
        self.error: Exception | None = None
        self.gone: tuple[tuple[str, str], ...] = ()

    def count(self) -> int:
        return self.running

    def wanted(self) -> int | None:
        return self.told[-1][0] if self.told else None

    def removed(self) -> tuple[tuple[str, str], ...]:
        return self.gone

    def bound(self, least: int, most: int) -> None:
        if self.error is not None:
            raise self.error
        self.told.append((least, most))
        self.running = min(max(self.running, least), most)


class Case:
    def __init__(self, conf: dict[str, str]) -> None:
        self.board = StatusBoard(DriverStatus(1, "uid-1", 1, DriverPhase.STARTING))
        self.pool: FakePool | None = FakePool()
        self.warnings: list[Problem] = []
        self.executors = Executors(
            conf, self.board, lambda known: self.pool, self.warnings.append, self.warnings.remove
        )

    @property
    def status(self) -> ExecutorsStatus | None:
        return self.board.status.executors


@pytest.mark.parametrize(
    ("conf", "expected"),
    [
        ({}, None),
        (STATIC, ExecutorsStatus(2, 2, wanted=2)),
        (DYNAMIC, ExecutorsStatus(1, 4, wanted=1)),
    ],
)
def test_the_configuration_says_how_many_there_are_at_the_start(
    conf: dict[str, str], expected: ExecutorsStatus | None
) -> None:
    assert at_start(conf) == expected
    assert Case(conf).status == expected


def test_spark_is_left_alone_until_another_number_is_asked_for() -> None:
    case = Case(STATIC)
    case.executors.look()
    assert case.pool is not None
    assert case.pool.told == []
    assert case.status == ExecutorsStatus(2, 2, wanted=2, running=2)


def test_another_number_is_in_the_status_at_once_and_then_in_spark() -> None:
    case = Case(STATIC)
    case.executors.change(3, 3)
    assert case.status == ExecutorsStatus(3, 3, wanted=2, running=0)
    case.executors.look()
    assert case.status == ExecutorsStatus(3, 3, wanted=3, running=3)


def test_a_number_that_comes_before_the_session_waits_for_it() -> None:
    case = Case(STATIC)
    pool, case.pool = case.pool, None
    case.executors.change(1, 1)
    case.executors.look()
    case.pool = pool
    case.executors.look()
    assert case.status == ExecutorsStatus(1, 1, wanted=1, running=1)


def test_a_later_session_of_the_script_gets_the_number_too() -> None:
    """Also when it is again the number of the configuration, with which that session starts."""
    case = Case(STATIC)
    case.executors.change(1, 1)
    case.executors.look()
    case.pool = FakePool()
    case.executors.look()
    assert case.pool.told == [(1, 1)]


def test_a_spark_that_cannot_change_it_is_left_alone_and_the_status_says_so() -> None:
    case = Case(DYNAMIC)
    assert case.pool is not None
    case.pool.error = AttributeError("minNumExecutors")
    case.executors.change(1, 8)
    for _ in range(TRIES - 1):
        case.executors.look()
    assert case.warnings == [], "its session may be about to end"
    case.executors.look()
    case.executors.look()
    (warning,) = case.warnings
    assert warning.reason == "ExecutorsNotChanged"
    assert "minNumExecutors" in warning.message
    case.pool.error = None
    case.executors.look()
    assert case.pool.told == []
    case.executors.change(1, 2)
    case.executors.look()
    assert case.pool.told == [(1, 2)]


def test_a_session_that_ends_meanwhile_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(STATIC)

    def gone(*_: Any) -> int:
        raise ConnectionError

    monkeypatch.setattr(FakePool, "count", gone)
    case.executors.look()
    assert (case.status, case.warnings) == (ExecutorsStatus(2, 2, wanted=2), [])


def test_a_job_without_executors_has_none_to_change() -> None:
    case = Case({})
    case.executors.change(2, 2)
    case.executors.look()
    assert case.status is None


def test_a_job_without_any_executor_warns_until_one_comes() -> None:
    case = Case(STATIC)
    assert case.pool is not None
    case.pool.running = 0
    for _ in range(EXECUTOR_GRACE - 1):
        case.executors.look()
    assert case.warnings == [], "a node may have to pull the image"
    case.executors.look()
    case.executors.look()
    (warning,) = case.warnings
    assert warning.reason == "ExecutorsMissing"
    assert "wants 2 executors and has none, so no batch can run" in warning.message
    assert "Kubernetes has to find room" in warning.remedy
    case.pool.running = 1
    case.executors.look()
    assert case.warnings == []


def test_executors_that_go_now_and_then_are_no_reason_to_warn() -> None:
    case = Case(STATIC)
    assert case.pool is not None
    for second in range(2 * EXECUTOR_GRACE):
        case.pool.running = int(second == EXECUTOR_GRACE - 1)
        case.executors.look()
        if second == 2 * EXECUTOR_GRACE - 2:
            assert case.warnings == []
    assert len(case.warnings) == 1


def test_a_job_that_wants_no_executor_now_does_not_lack_one() -> None:
    case = Case(DYNAMIC)
    assert case.pool is not None
    case.executors.change(0, 4)
    case.pool.running = 0
    for _ in range(EXECUTOR_GRACE + 1):
        case.executors.look()
    assert case.warnings == []


SHUT_DOWN = RuntimeError("Job 7 cancelled because SparkContext was shut down")
KILLED = "The executor with id 3 exited with exit code 137(SIGKILL, possible container OOM)."


def test_an_end_of_the_context_has_the_last_words_of_the_executor_before_it() -> None:
    case = Case(STATIC)
    assert case.pool is not None
    assert case.executors.explained(SHUT_DOWN) is SHUT_DOWN, "no executor has died"
    case.pool.gone = (("3", KILLED),)
    case.executors.look()
    case.pool = None  # the context is gone
    case.executors.look()
    assert "exit code 137" in str(case.executors.explained(SHUT_DOWN))
    for _ in range(RECENT):
        case.executors.look()
    assert case.executors.explained(SHUT_DOWN) is SHUT_DOWN, "another end, long after"


def test_the_warning_says_what_the_last_executor_died_of() -> None:
    case = Case(STATIC)
    assert case.pool is not None
    case.pool.running, case.pool.gone = 0, (("3", KILLED),)
    for _ in range(EXECUTOR_GRACE):
        case.executors.look()
    (warning,) = case.warnings
    assert warning.message.endswith(
        "no batch can run. The last one that died: executor 3: The executor with id 3 exited with exit code "
        "137(SIGKILL, possible container OOM)"
    )
