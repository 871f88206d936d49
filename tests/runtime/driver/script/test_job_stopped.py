"""Threads that a stop has ended, and those who wait for them."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

SCRIPT = """
import threading
from streamjob.runtime.driver.script.job_stopped import JobStopped, end_joiners

end_joiners()

def stopped():
    raise JobStopped

def worker():
    threads = [threading.Thread(target=stopped) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        threads[0].join()
        print("joined a stopped thread")
    finally:
        threads[1].join()
        print("finally")

sound = threading.Thread(target=print, args=("sound",))
sound.start()
sound.join()
main = threading.Thread(target=worker)
main.start()
try:
    while True:
        main.join(0.01)
finally:
    main.join()
    print("finally of main")
"""


def test_who_joins_a_thread_that_was_stopped_is_stopped() -> None:
    done = subprocess.run(
        [sys.executable, "-c", dedent(SCRIPT)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.stdout.splitlines() == ["sound", "finally", "finally of main"]
    assert (done.returncode, done.stderr) == (0, "")


POOLS = """
from concurrent import futures
from concurrent.futures import ThreadPoolExecutor
from streamjob.runtime.driver.script.job_stopped import JobStopped, end_joiners

end_joiners()

def stopped(n):
    if n:
        raise JobStopped

def waits():
    pool = ThreadPoolExecutor(2)
    futures.wait([pool.submit(stopped, n) for n in range(2)])

def leaves():
    with ThreadPoolExecutor(2) as pool:
        pool.map(stopped, range(2))

def sound():
    with ThreadPoolExecutor(2) as pool:
        futures.wait([pool.submit(stopped, 0)])

sound()
print("sound")
KIND()
print("waited for what was stopped")
"""


@pytest.mark.parametrize("kind", ["waits", "leaves"])
def test_who_waits_for_a_pool_is_stopped(kind: str) -> None:
    script = dedent(POOLS).replace("KIND", kind)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout, done.returncode, done.stderr) == ("sound\n", 0, "")


ASYNCIO = """
import asyncio
from streamjob.runtime.driver.script.job_stopped import JobStopped, end_joiners

end_joiners()

def stopped():
    raise JobStopped

async def main():
    results = await asyncio.gather(asyncio.to_thread(stopped), return_exceptions=True)
    print("behind", results)

asyncio.run(main())
print("over")
"""


def test_asyncio_comes_to_its_end() -> None:
    """As it does with any SystemExit."""
    script = dedent(ASYNCIO)
    done = [
        subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=False)
        for text in (script, script.replace("raise JobStopped", "raise SystemExit(0)"))
    ]
    assert (done[0].stdout, done[0].returncode) == (done[1].stdout, done[1].returncode)


THREAD_POOLS = """
import threading
from multiprocessing.pool import ThreadPool
from streamjob.runtime.driver.script.job_stopped import JobStopped, end_joiners

end_joiners()
pool = ThreadPool(2)

def stopped(n):
    if n:
        raise JobStopped
    return threading.current_thread().daemon

def fails(function):
    raise LookupError(function)

def calls():
    pool.map(stopped, range(5), chunksize=1)

def asks_for_each():
    list(pool.imap(stopped, range(5)))

def asks_for_one():
    pool.apply(stopped, [1])

def polls():
    result = pool.starmap_async(stopped, [[0], [1]])
    while not result.ready():
        result.wait(0.01)
    result.wait()

def joins():
    pool.apply_async(stopped, [1])
    pool.close()
    pool.join()

def leaves():
    sound()
    with pool:
        try:
            pool.map(stopped, range(5))
        finally:
            pool.map_async(stopped, range(5)).wait()
            pool.close()
            pool.join()
            print("finally")

def sound():
    assert pool.map(stopped, [0, 0]) == [True, True]
    try:
        pool.apply(fails, kwds={"function": 1})
    except LookupError as e:
        print("sound", e)

sound()
KIND()
print("waited for what was stopped")
"""


@pytest.mark.parametrize(
    ("kind", "shown"),
    [
        ("calls", ["sound 1"]),
        ("asks_for_each", ["sound 1"]),
        ("asks_for_one", ["sound 1"]),
        ("polls", ["sound 1"]),
        ("joins", ["sound 1"]),
        ("leaves", ["sound 1", "sound 1", "finally"]),
    ],
)
def test_who_waits_for_a_pool_of_multiprocessing_is_stopped(kind: str, shown: list[str]) -> None:
    script = dedent(THREAD_POOLS).replace("KIND", kind)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout.splitlines(), done.returncode, done.stderr) == (shown, 0, "")
