"""Batches that the runtime interrupts, whose functions catch the errors in which that arrives."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.protocol.messages.commands import Mode

from .feeds import eventually
from .scripts import Script, await_said, latest, said
from .terminal import Terminal

pytestmark = pytest.mark.any_spark
FORMS = ("job", "jvm", "thread", "leaves", "plain")

SCRIPT = """
        from pyspark import InheritableThread

        def sleep(n):
            time.sleep(600)
            return n

        def job(spark):  # Spark cancels the job, and kills the Python worker
            spark.range(0, 1, 1, 1).select(F.udf(sleep, "long")("id")).collect()

        def jvm(spark):  # Spark interrupts the thread
            spark._jvm.java.lang.Thread.sleep(600000)

        def thread(spark):  # in another thread of the batch
            other = InheritableThread(target=job, args=(spark,))
            other.start()
            other.join()

        def leaves(spark):
            try:
                job(spark)
            except Exception:
                sys.exit(0)

        def plain(spark):  # nothing is interrupted: the function hears of the failure and gives up
            for there in (False, True):
                while Path(home, "fail").exists() == there:
                    time.sleep(0.02)

        def write_with(form):
            def write(frame, batch):
                frame.write.mode("append").json(f"{home}/{form.__name__}/first")
                if Path(home, "hold").exists():
                    Path(home, f"in-{form.__name__}").touch()
                    try:
                        form(frame.sparkSession)
                    except Exception:
                        pass
                    return
                frame.write.mode("append").json(f"{home}/{form.__name__}/second")
            return write

        def check(v):
            if Path(home, "fail").exists():
                raise ValueError("poison")
            return v

        while True:
            start("a", read("in").withColumn("v", F.udf(check, "long")("v")), folder="between")
            while not Path(home, "between", "_spark_metadata").exists():
                time.sleep(0.02)
            for form in (job, jvm, thread, leaves, plain):
                each = read("between").writeStream.queryName(form.__name__).foreachBatch(write_with(form))
                each.trigger(**OFTEN).start()
            say("started")
            try:
                spark.streams.awaitAnyTermination()
            except Exception as e:
                say("failed:", "poison" in str(e))
                for name in ("hold", "fail"):
                    Path(home, name).unlink()
                spark.streams.resetTerminated()
"""


@pytest.mark.slow
def test_an_interrupted_batch_is_not_committed_whatever_its_function_makes_of_the_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The script starts all its queries again: each interrupted batch runs again, and misses nothing."""
    script = Script(tmp_path, SCRIPT)
    script.feed.minutes(0, 3)
    with script.driver(spark_conf={"spark.master": "local[8]"}) as driver:
        await_said(driver, "started")
        eventually(lambda: all(latest(tmp_path, form) == 0 for form in FORMS), "the first batches")
        (tmp_path / "hold").touch()
        script.feed.minutes(3, 6)
        eventually(lambda: all((tmp_path / f"in-{form}").exists() for form in FORMS), "the second batches")
        (tmp_path / "fail").touch()
        script.feed.minutes(6, 9)
        await_said(driver, "failed: True")
        eventually(lambda: said(driver.log).count("started") == 2 or driver.process.poll(), "the next runs")
        eventually(lambda: all(latest(tmp_path, form) == 2 for form in FORMS), "all batches")
        driver.finish(Mode.STOP)
    written = {form: script.values(spark, f"{form}/second") for form in FORMS}
    assert written == {form: list(range(9)) for form in FORMS}


def test_a_batch_whose_worker_sigterm_has_killed_is_repeated(spark: SparkSession, tmp_path: Path) -> None:
    """By default, systemd sends it to each process of a unit."""
    script = Script(
        tmp_path,
        """
        def hold(v):
            while Path(home, "hold").exists():
                Path(home, "held").touch()
                time.sleep(0.02)
            return v

        def write(frame, batch):
            try:
                rows = frame.withColumn("v", F.udf(hold, "long")("v"))
                rows.write.mode("overwrite").json(f"{home}/out/{batch:05}")
            except Exception as e:
                say("caught", type(e).__name__)

        read("in").writeStream.queryName("main").foreachBatch(write).start().awaitTermination()
        """,
    )
    script.feed.minutes(0, 3)
    first = Terminal(tmp_path / "state", script.file, arguments=(str(tmp_path),)).running(0)
    (tmp_path / "hold").touch()
    script.feed.minutes(3, 6)
    eventually((tmp_path / "held").exists, "a worker in the second batch")
    for process in of_session(first.process.pid):
        os.kill(process, signal.SIGTERM)
    code, shown = first.ended()
    assert "script: caught" in shown
    assert "in the middle of this batch by SIGTERM" in shown, shown
    assert "KillMode=mixed" in shown
    (tmp_path / "hold").unlink()
    code, shown = Terminal(tmp_path / "state", script.file, "--drain", arguments=(str(tmp_path),)).ended()
    assert code == 0, shown
    assert script.values(spark, "out") == list(range(6))


def of_session(leader: int) -> list[int]:
    """The processes of a session, in which Python workers have a group of their own."""
    found = subprocess.run(
        ["ps", "-o", "pid=", "-s", str(leader)], capture_output=True, text=True, check=True
    )
    return [int(word) for word in found.stdout.split()]
