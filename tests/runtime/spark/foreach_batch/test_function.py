from __future__ import annotations

import threading

import pytest

from streamjob.runtime.spark.foreach_batch import function as functions
from streamjob.runtime.spark.foreach_batch import writes
from streamjob.runtime.spark.foreach_batch.function import BatchFunction, BatchInterrupted, BatchLeft


def batch(function: BatchFunction) -> BatchFunction | None:
    """Run a batch of the function.

    :returns: what it was found to be by the thread that called it.
    """
    seen = []
    function.before.append(lambda number: seen.append(functions.running_batch_function()))
    function(None, 0)  # type: ignore[arg-type]
    return seen[0]


def test_the_calling_thread_runs_the_batch_only_while_it_lasts() -> None:
    function = BatchFunction(lambda frame, number: None)
    assert batch(function) is function
    assert functions.running_batch_function() is None
    assert functions.running_batch_functions() == []


def test_a_write_of_another_thread_counts_for_each_function_that_runs() -> None:
    """It is a thread of one of them, and nobody knows of which one. The main thread is none."""
    seen: list[list[BatchFunction]] = []

    def in_a_thread() -> None:
        thread = threading.Thread(target=lambda: seen.append(writes._writing()))
        thread.start()
        thread.join()

    first, second = (BatchFunction(lambda frame, number: None) for _ in range(2))
    in_a_thread()
    with functions.batch_of(first), functions.batch_of(second):
        in_a_thread()
        seen.append(writes._writing())
    assert seen == [[], [first, second], [second]]
    assert writes._writing() == []


def test_a_batch_that_is_interrupted_fails_whatever_its_function_makes_of_it() -> None:
    done: list[int] = []

    def write(frame: object, number: int) -> None:
        batches.interrupted.set()
        try:
            raise RuntimeError("Job 7 cancelled")
        except RuntimeError:
            pass

    batches = BatchFunction(write)
    batches.after.append(done.append)
    with pytest.raises(BatchInterrupted):
        batches(None, 0)  # type: ignore[arg-type]
    assert done == [], "its state is not stored either"
    assert functions.running_batch_functions() == []


def test_a_run_that_was_interrupted_commits_no_later_batch_either() -> None:
    batches = BatchFunction(lambda frame, number: None)
    batches.interrupted.set()
    with pytest.raises(BatchInterrupted):
        batches(None, 1)  # type: ignore[arg-type]


def test_an_interrupted_batch_that_outlives_the_next_start_of_its_writer_fails_all_the_same() -> None:
    def write(frame: object, number: int) -> None:
        if number == 0:
            batches.interrupted.set()
            batches.interrupted = threading.Event()  # that of the next run

    batches = BatchFunction(write)
    with pytest.raises(BatchInterrupted):
        batches(None, 0)  # type: ignore[arg-type]
    batches(None, 1)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", [SystemExit(0), KeyboardInterrupt()])
def test_a_function_that_leaves_its_thread_fails_its_batch(how: BaseException) -> None:
    def write(frame: object, number: int) -> None:
        raise how

    batches = BatchFunction(write)
    with pytest.raises(BatchLeft) as e:
        batches(None, 0)  # type: ignore[arg-type]
    assert batches.failure is e.value, "the user is told that"
