"""How a script ends whose job has ended, in a driver process without Spark.

A script that runs on is told after a third of its time, and again after as long.
"""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests import gate

from .programs import END, run_script

# What the main thread does when its job stops.
WAITS = {
    "polls": """
        try:
            ready()
            while True: time.sleep(0.01)
        finally:
            time.sleep(0.5)
            print("finally")
        """,
    "works in a library": """
        import ipaddress
        try:
            ready()
            while True: list(ipaddress.ip_network("10.0.0.0/20"))
        finally:
            print("finally")
        """,
    "waits for a child": """
        import subprocess
        child = subprocess.Popen(["sleep", "600"])
        try:
            ready()
            child.wait()
        finally:
            child.kill()
            print("finally")
        """,
    "an event loop": """
        import asyncio
        async def work():
            try:
                ready()
                await asyncio.sleep(600)
            finally:
                await asyncio.sleep(0.5)
                print("finally")
        asyncio.run(work())
        """,
    "a handler of its own that waits": """
        import signal
        def handler(*_):
            try:
                ready()
                while True: time.sleep(0.01)
            finally:
                print("finally")
        signal.signal(signal.SIGUSR2, handler)
        signal.raise_signal(signal.SIGUSR2)
        """,
}


def script_says(out: str) -> list[str]:
    return [line for line in out.splitlines() if not line.startswith("listener: ")]


@pytest.mark.parametrize("where", gate.slow_but(("an event loop", "works in a library"), WAITS))
def test_a_script_is_left_wherever_it_is_and_its_finally_runs(tmp_path: Path, where: str) -> None:
    """It has started no query, so it is told at once, and has the grace period to clean up."""
    code, out, log = run_script(tmp_path, WAITS[where], by=signal.SIGTERM)
    assert (code, script_says(out), END in log) == (0, ["finally"], False), log


def test_a_stop_tells_a_script_that_starts_no_query(tmp_path: Path) -> None:
    """It has a third of the request's time to start one, and then the grace period to clean up."""
    code, out, log = run_script(tmp_path, WAITS["polls"], timeout=1, by=signal.SIGHUP)
    assert (code, script_says(out), END in log) == (0, ["finally"], False), log
    assert "the script had started no query when the job was asked to stop" in log


def test_a_drain_waits_for_queries_and_says_so_once(tmp_path: Path) -> None:
    text = """
        ready()
        time.sleep(2)
        print("ends by itself")
        """
    code, out, log = run_script(tmp_path, text, mode="Drain", timeout=1, by=signal.SIGHUP)
    assert (code, script_says(out)) == (0, ["ends by itself"]), log
    assert log.count("the drain waits for the script, which has started no query") == 1


def test_a_script_that_catches_it_is_told_again(tmp_path: Path) -> None:
    text = """
        for n in range(2):
            try:
                n or ready()
                while True: time.sleep(0.01)
            except BaseException as e:
                last_error = e
        print("ends at last")
        """
    code, out, log = run_script(tmp_path, text, timeout=9)
    assert (code, script_says(out), END in log) == (0, ["ends at last"], False), log


# A thread of the script waits for the query, and the main thread for that thread.
THREADS = {
    "joins it": "worker.join()",
    "waits for an event": "done.wait()",
    "looks whether it is alive": "while worker.is_alive(): time.sleep(0.01)",
    "waits at a queue": "results.get()",
    "asks a future": "pool.submit(ingest).result()",
    "leaves a pool of multiprocessing": "ThreadPool(1).map(lambda _: ingest(), [0])",
    # Only the loop's own thread says that it is up: the job stops no sooner.
    "is an event loop": "asyncio.run(asyncio.wait_for(asyncio.to_thread(lambda: [ready(), ingest()]), None))",
}


QUICK = ("joins it", "waits at a queue", "is an event loop")


@pytest.mark.parametrize("wait", gate.slow_but(QUICK, THREADS))
def test_the_main_thread_is_told_before_the_wait_of_a_thread_ends(tmp_path: Path, wait: str) -> None:
    """It would take the input for read, and archive it. The request has no limit that could tell it."""
    text = f"""
        import asyncio, queue
        from concurrent.futures import ThreadPoolExecutor
        from multiprocessing.pool import ThreadPool
        done, results, pool = threading.Event(), queue.Queue(), ThreadPoolExecutor(1)
        def ingest():
            try:
                await_termination()
            finally:
                done.set()
                results.put("done")
        worker = threading.Thread(target=ingest)
        worker.start()
        try:
            {"" if "ready()" in THREADS[wait] else "ready()"}
            {THREADS[wait]}
            print("archived")
        finally:
            print("finally")
        """
    code, out, log = run_script(tmp_path, text)
    assert (code, script_says(out), "Traceback" in log) == (0, ["finally"], False), log


# None of these ends by SystemExit. At the limit the process ends, with what was printed.
NEVER = {
    "always catches it": """
        import io, sys
        ready()
        while True:
            try:
                while True:
                    try:
                        time.sleep(0.01)
                    except BaseException:
                        print("printed")
                        sys.stdout = io.StringIO()
            except BaseException:
                pass
        """,
    "holds the locks of the log": """
        import logging
        logging.basicConfig()
        for handler in [*logging.getLogger().handlers, *logging.getLogger("streamjob").handlers]:
            handler.acquire()
        ready()
        print("printed")
        while True:
            try: time.sleep(0.01)
            except BaseException: pass
        """,
    "cleans up for ever": """
        ready()
        try:
            await_termination()
        finally:
            print("printed")
            while True: time.sleep(0.01)
        """,
    "a child process that Python joins at exit, behind the handlers of the script": """
        import multiprocessing, os
        def child(parent):
            while os.getppid() == parent: time.sleep(0.05)
        multiprocessing.Process(target=child, args=(os.getpid(),)).start()
        ready()
        print("printed")
        await_termination()
        """,
    "a handler at exit without end": """
        import atexit
        ready()
        atexit.register(time.sleep, 600)
        atexit.register(print, "printed")
        await_termination()
        """,
}


@pytest.mark.parametrize("what", gate.slow_but(("holds the locks of the log",), NEVER))
def test_no_process_outlives_its_limit(tmp_path: Path, what: str) -> None:
    code, out, log = run_script(tmp_path, NEVER[what], timeout=3)
    assert (code, script_says(out)) == (0, ["printed"]), log
    assert log.count("the driver exits: ") == (0 if "locks" in what else 1), log


def test_a_thread_without_end_takes_nothing_from_the_handlers_at_exit(tmp_path: Path) -> None:
    text = """
        import atexit
        def handler():
            time.sleep(1.5)
            print("at exit")
        atexit.register(handler)
        threading.Thread(target=time.sleep, args=(600,)).start()
        ready()
        await_termination()
        """
    code, out, log = run_script(tmp_path, text, timeout=9)
    assert (code, script_says(out), END in log) == (0, ["at exit"], False), log


def test_a_drain_lets_the_script_work_and_tells_it_before_its_time_is_over(tmp_path: Path) -> None:
    text = """
        ready()
        await_termination()
        began = time.monotonic()
        try:
            while True: time.sleep(0.01)
        finally:
            print("has had its time:", time.monotonic() - began > 1)
        """
    code, out, log = run_script(tmp_path, text, mode="Drain", timeout=6)
    assert (code, script_says(out), END in log) == (0, ["has had its time: True"], False), log


@pytest.mark.parametrize("mode", gate.slow_but(["Stop"], ["Stop", "Drain"]))
def test_listeners_hear_of_the_end_behind_the_script(tmp_path: Path, mode: str) -> None:
    """Then the savepoint is complete, and a listener may end the process."""
    text = """
        import atexit
        atexit.register(print, "at exit")
        try:
            ready()
            await_termination()
        finally:
            print("finally")
        """
    code, out, log = run_script(tmp_path, text, mode=mode)
    assert (code, out.splitlines()) == (0, ["finally", "at exit", "listener: terminated"]), log


WAITS_FOR_ITS_LISTENER = """
    import sys
    heard, write = threading.Event(), sys.stdout.write
    def hears(words):
        write(words)
        if "listener" in words: heard.set()
    sys.stdout.write = hears
    try:
        ready()
        heard.wait()
        print("archived")
    finally:
        print("finally")
    """


def test_a_script_that_waits_for_its_listener_in_a_drain_gets_it(tmp_path: Path) -> None:
    code, out, log = run_script(tmp_path, WAITS_FOR_ITS_LISTENER, mode="Drain", timeout=9)
    assert (code, out.splitlines()) == (0, ["listener: terminated", "archived", "finally"]), log


@pytest.mark.slow
def test_a_script_that_waits_for_its_listener_in_a_stop_is_told_first(tmp_path: Path) -> None:
    """It would take the input for read."""
    code, out, log = run_script(tmp_path, WAITS_FOR_ITS_LISTENER, timeout=6)
    assert (code, script_says(out)) == (0, ["finally"]), log
    assert "listener: terminated" in out.splitlines()
