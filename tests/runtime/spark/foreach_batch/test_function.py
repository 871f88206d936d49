from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import pytest

from streamjob.runtime.spark.foreach_batch import function as functions
from streamjob.runtime.spark.foreach_batch.function import BatchFunction


@pytest.fixture
def following(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    monkeypatch.setattr(ThreadPoolExecutor, "submit", ThreadPoolExecutor.submit)
    functions.follow()
    yield
    monkeypatch.undo()


def batch(function: BatchFunction) -> BatchFunction | None:
    """Run a batch of the function.

    :returns: what it was found to be by the thread that called it.
    """
    seen = []
    function.before.append(lambda number: seen.append(functions.running_batch_function()))
    function(None, 0)  # type: ignore[arg-type]
    return seen[0]


def seen_by(work: list[BatchFunction | None]) -> None:
    work.append(functions.running_batch_function())


def test_the_calling_thread_runs_the_batch_only_while_it_lasts() -> None:
    function = BatchFunction(lambda frame, number: None)
    assert batch(function) is function
    assert functions.running_batch_function() is None
    assert functions.running_batch_functions() == []


@pytest.mark.usefixtures("following")
def test_a_batch_inside_of_a_batch() -> None:
    inner = BatchFunction(lambda frame, number: None)
    seen: list[BatchFunction | None] = []

    def write(frame: object, number: int) -> None:
        assert batch(inner) is inner
        seen_by(seen)

    outer = BatchFunction(write)
    outer(None, 0)  # type: ignore[arg-type]
    assert seen == [outer]


@pytest.mark.usefixtures("following")
def test_threads_and_pools_that_a_batch_starts_belong_to_it() -> None:
    seen: list[BatchFunction | None] = []

    def write(frame: object, number: int) -> None:
        thread = threading.Thread(target=seen_by, args=(seen,))
        thread.start()
        thread.join()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(seen_by, seen).result()
        with ThreadPool(1) as workers:
            workers.map(seen_by, [seen])

    function = BatchFunction(write)
    function(None, 0)  # type: ignore[arg-type]
    assert seen == [function] * 3


@pytest.mark.usefixtures("following")
def test_a_pool_that_outlives_the_batch_works_for_whoever_submits() -> None:
    seen: list[BatchFunction | None] = []
    with ThreadPoolExecutor(1) as pool:
        first, second = (
            BatchFunction(lambda frame, number: pool.submit(seen_by, seen).result()) for _ in range(2)
        )
        first(None, 0)  # type: ignore[arg-type]  # starts the pool's thread
        pool.submit(seen_by, seen).result()
        second(None, 0)  # type: ignore[arg-type]
    assert seen == [first, None, second]


@pytest.mark.usefixtures("following")
def test_a_thread_that_outlives_its_batch_runs_none() -> None:
    seen: list[BatchFunction | None] = []
    over = threading.Event()

    def left() -> None:
        over.wait()
        seen_by(seen)

    thread = threading.Thread(target=left)
    function = BatchFunction(lambda frame, number: thread.start())
    function(None, 0)  # type: ignore[arg-type]
    over.set()
    thread.join()
    assert seen == [None]
