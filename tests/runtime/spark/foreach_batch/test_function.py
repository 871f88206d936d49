from __future__ import annotations

import threading

from streamjob.runtime.spark.foreach_batch import function as functions
from streamjob.runtime.spark.foreach_batch import writes
from streamjob.runtime.spark.foreach_batch.function import BatchFunction


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
