"""More and fewer executors while Spark runs: `local-cluster`, which has a JVM for each. Prints a line of JSON
for each case.

Argument: `static` or `dynamic`.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from streamjob.runtime.spark.executors.losses import last_words
from streamjob.runtime.spark.executors.pool import ExecutorPool, pool_of

PATIENCE = 120.0
DECOMMISSION = {
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "5s",
}
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.initialExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    "spark.dynamicAllocation.shuffleTracking.enabled": "false",
}


def main(how: str) -> None:
    builder = SparkSession.builder.master("local-cluster[3,1,512]").config("spark.ui.enabled", "false")
    settings = {"spark.executor.memory": "512m", "spark.driver.host": "127.0.0.1", **DECOMMISSION}
    for key, value in {**settings, **(DYNAMIC if how == "dynamic" else {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    pool = pool_of(None)
    assert pool is not None
    assert pool_of(pool) is pool
    {"static": static, "dynamic": dynamic}[how](spark.sparkContext, pool)
    spark.stop()
    assert pool_of(pool) is None


def static(context: SparkContext, pool: ExecutorPool) -> None:
    say(begins=reached(pool, 3))
    shuffled = context.parallelize([(n % 7, n) for n in range(1000)], 6).reduceByKey(int.__add__, 6)
    expected = sorted(shuffled.collect())
    say(fewer=settled(pool, 1), wanted=pool.wanted())
    say(same=sorted(shuffled.collect()) == expected)
    say(more=settled(pool, 2), sum=context.parallelize(range(100), 4).sum())
    say(again=settled(pool, 2), let_go=last_words(pool.removed()))
    say(died=last_words_of_a_killed_one(context, pool))


def last_words_of_a_killed_one(context: SparkContext, pool: ExecutorPool) -> str:
    """What is told of an executor whose JVM is killed, without its id."""
    os.kill(context.parallelize([0], 1).map(lambda _: executor_process()).first(), signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE
    while not last_words(pool.removed()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return last_words(pool.removed()).partition(": ")[2]


def executor_process() -> int:
    """In a Python worker: the process id of its executor's JVM, which has started Python's daemon."""
    status = Path(f"/proc/{os.getppid()}/status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def dynamic(context: SparkContext, pool: ExecutorPool) -> None:
    say(begins=reached(pool, 1), wanted=pool.wanted())
    with_work(context, lambda: say(grows=reached(pool, 2)))
    say(shrinks=reached(pool, 1))
    pool.bound(1, 3)
    with_work(context, lambda: say(raised=reached(pool, 3)))
    with_work(context, lambda: say(lowered=settled(pool, 1, least=1), under_load=pool.wanted()))
    say(least=settled(pool, 2, least=2))
    say(sum=context.parallelize(range(100), 4).sum())


def settled(pool: ExecutorPool, number: int, *, least: int | None = None) -> int:
    """Ask for so many until they are there, as the driver does."""
    return reached(pool, number, lambda: pool.bound(number if least is None else least, number))


def reached(pool: ExecutorPool, number: int, each_time: Callable[[], None] = lambda: None) -> int:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        each_time()
        if pool.count() == number:
            break
        time.sleep(0.1)
    return pool.count()


def with_work(context: SparkContext, call: Callable[[], None]) -> None:
    """Call while tasks wait for longer than `schedulerBacklogTimeout`, also with three executors."""
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            context.parallelize(range(30), 30).foreach(lambda _: time.sleep(0.3))

    worker = threading.Thread(target=work)
    worker.start()
    try:
        call()
    finally:
        over.set()
        worker.join()


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
