"""What an interruption of a run reaches."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from streamjob.protocol.graph import TaskName
from streamjob.runtime.query.bounded_input import InputEnd
from streamjob.runtime.query.run import Run
from streamjob.runtime.query.transactions import Transactions
from streamjob.runtime.spark.boundary import QueryFailed

UNUSED: Any = None


class Query:
    """Stands in for Spark's, which ends when it is stopped."""

    def __init__(self, error: Exception | None = None) -> None:
        self.awaited, self._ended, self._error = threading.Event(), threading.Event(), error

    @property
    def isActive(self) -> bool:
        return not self._ended.is_set()

    def stop(self) -> None:
        self._ended.set()

    def awaitTermination(self) -> None:
        self.awaited.set()
        self._ended.wait()

    def exception(self) -> Exception | None:
        return self._error


class Directory:
    """With which batches are committed, each time that somebody looks."""

    uri = "file:/checkpoints/a/0"

    def __init__(self, *commits: int) -> None:
        self._commits = list(commits)

    def latest_commit(self) -> int:
        return self._commits.pop(0) if len(self._commits) > 1 else self._commits[0]


def a_run(start: Any = UNUSED, directory: Any = UNUSED, transactions: Any = None) -> Run:
    engine: Any = type("Engine", (), {"jvm": None})
    return Run(
        TaskName("a", "a"), engine, directory, start, InputEnd("a", directory), transactions=transactions
    )


def test_an_interruption_stops_the_query_that_catches_up() -> None:
    own, again = Query(), Query()
    run = a_run(lambda *settings, **trigger: again)
    run.query = own  # type: ignore[assignment]
    run.restart(availableNow=True)
    run.interrupt()
    assert not own.isActive
    assert not again.isActive


def test_an_interruption_while_a_query_is_started_again_stops_that_one() -> None:
    again = Query()

    def start(*settings: tuple[str, str], **trigger: Any) -> Query:
        run.interrupt()
        return again

    run = a_run(start)
    run.restart(once=True)
    assert not again.isActive


def test_a_run_that_was_interrupted_is_not_started_again() -> None:
    run = a_run()
    run.interrupt()
    with pytest.raises(QueryFailed, match="interrupted"):
        run.restart(once=True)


def test_the_next_run_waits_for_the_end_of_one_that_was_interrupted() -> None:
    run, query, waits = a_run(), Query(), threading.Event()
    run.query = query  # type: ignore[assignment]
    run.await_interrupted()  # nobody has interrupted it
    run.interrupted.set()

    def wait() -> None:
        run.await_interrupted()
        waits.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert query.awaited.wait(20)
    assert not waits.is_set()
    query.stop()
    thread.join(20)
    assert waits.is_set()


def test_what_an_interrupted_query_failed_with_is_not_the_cause() -> None:
    run = a_run()
    run.query = Query(RuntimeError("Job 7 cancelled"))  # type: ignore[assignment]
    run.failure = cause = RuntimeError("of the connected query")
    run.interrupted.set()
    assert run.cause_of(RuntimeError("Job 7 cancelled")) is cause
    assert not run.failed_by_itself


class Sink:
    def __getattr__(self, name: str) -> Any:
        return lambda *args: ()


def test_the_record_of_an_interrupted_run_has_the_batch_up_to_which_its_sink_was_pre_committed() -> None:
    """The run commits another one between the two."""
    transactions = Transactions(Sink(), "owner")  # type: ignore[arg-type]
    run = a_run(directory=Directory(5, 6), transactions=transactions)
    run.failure = RuntimeError("of the connected query")
    noted = transactions.pre_commit(3, run.directory.latest_commit())
    record = run.record(3, False, noted, exhausted=False, running=True)
    assert (record.batch, record.transactions) == (5, ("owner@5.3",))


def test_an_interruption_of_a_query_whose_jvm_has_died_is_no_error() -> None:
    class Dead(Query):
        def stop(self) -> None:
            raise ConnectionRefusedError

    run = a_run()
    run.query = Dead()  # type: ignore[assignment]
    run.interrupt()
    assert run.interrupted.is_set()
