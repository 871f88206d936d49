"""Which threads are the script's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import InheritableThread
from pyspark.sql.streaming.query import StreamingQuery

from streamjob.runtime.driver import threads


class Awaited(StreamingQuery):
    """A query of pyspark's, as far as a thread can see."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        return self.over.wait(20)


@contextmanager
def running(thread: threading.Thread, over: threading.Event) -> Iterator[threading.Thread]:
    thread.start()
    try:
        yield thread
    finally:
        over.set()
        thread.join()


def test_the_scripts() -> None:
    query = Awaited()
    for thread in (
        threading.Thread(target=query.over.wait),
        threading.Thread(target=query.over.wait, name="work-0", daemon=True),
        threading.Thread(target=query.over.wait, name="watch-orders"),
        threading.Thread(target=query.awaitTermination),
        threading.Timer(0, query.over.wait),
    ):
        query.over.clear()
        with running(thread, query.over):
            assert thread in threads.script_threads()


def test_one_that_pyspark_has_made_for_the_script() -> None:
    over = threading.Event()
    thread = InheritableThread.__new__(InheritableThread)  # its own constructor asks the JVM
    threading.Thread.__init__(thread, target=over.wait)
    with running(thread, over):
        assert thread in threads.script_threads()


def test_our_own() -> None:
    over = threading.Event()
    for thread in (threading.Thread(target=over.wait), threading.Timer(20, print)):
        over.clear()
        threads.own(thread)
        thread.start()
        assert thread.daemon
        assert thread not in threads.script_threads()
        over.set()
        if isinstance(thread, threading.Timer):
            thread.cancel()
        thread.join()
