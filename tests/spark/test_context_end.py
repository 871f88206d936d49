"""A driver leaves its Spark context to the end of its process only where nothing is lost by that."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from streamjob.jvm.context_end import left_to_finish
from streamjob.protocol.messages.commands import Mode
from streamjob.storage.local_disk import uri_of

from .feeds import eventually
from .scripts import Script

STOPS = "Spark stops before its process ends: "


def left(spark: SparkSession, *variables: str) -> str | None:
    return left_to_finish(spark.sparkContext, variables)


@contextmanager
def listening(spark: SparkSession, name: str) -> Iterator[None]:
    java: Any = spark
    listener = getattr(java._jvm.org.apache.spark.scheduler, name)()
    java._jsc.sc().addSparkListener(listener)
    try:
        yield
    finally:
        java._jsc.sc().removeSparkListener(listener)


def test_a_plain_local_context_has_nothing_to_finish(spark: SparkSession) -> None:
    assert left(spark) is None


def test_a_listener_that_may_wait_for_the_end_gets_it(spark: SparkSession) -> None:
    with listening(spark, "StatsReportListener"):
        assert left(spark) == "the listener org.apache.spark.scheduler.StatsReportListener"
    assert left(spark) is None


def test_folders_that_may_be_on_a_volume_are_deleted_in_order(spark: SparkSession) -> None:
    assert left(spark, "PATH", "SPARK_LOCAL_DIRS") == "the setting SPARK_LOCAL_DIRS"


@pytest.mark.parametrize(
    "key", ["spark.plugins", "spark.metrics.conf.*.sink.csv.class", "spark.local.dir", "spark.ui.store.path"]
)
def test_a_setting_of_what_outlives_the_process_counts(spark: SparkSession, key: str) -> None:
    java: Any = spark
    conf = java._jsc.sc().conf()
    before = conf.get(key, None)
    conf.set(key, "x")
    try:
        assert left(spark) == f"the setting {key}"
    finally:
        conf.remove(key) if before is None else conf.set(key, before)


def test_a_running_job_is_cancelled_in_order(spark: SparkSession) -> None:
    job = threading.Thread(target=lambda: _until_cancelled(spark))
    job.start()
    eventually(lambda: left(spark) == "a running job", "the job")
    spark.sparkContext.cancelAllJobs()
    job.join()
    eventually(lambda: left(spark) is None, "its end")


def _until_cancelled(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="cancel"):
        spark.range(1).selectExpr("java_method('java.lang.Thread', 'sleep', 600000L)").collect()


APP = """
from pyspark.sql.streaming import StreamingQueryListener

class Listener(StreamingQueryListener):
    def onQueryStarted(self, event): pass
    def onQueryProgress(self, event): pass
    def onQueryIdle(self, event): pass
    def onQueryTerminated(self, event):
        time.sleep(11)  # longer than anything else that the process waits for
        Path(home, "terminated").touch()

spark.streams.addListener(Listener())
atexit.register(Path(home, "atexit").touch)
query = start("main", windows(read("in")))
try:
    query.awaitTermination()
finally:
    Path(home, "finally").touch()
"""


def stopped(home: Path, conf: dict[str, str]) -> LocalDriver:
    """Stop a job. Its JVM is killed when the driver's process ends, as the end of a container does it."""
    script = Script(home, APP)
    script.feed.add([{"t": "2026-01-01T00:00:00Z", "k": "a", "v": 1}])
    with script.driver(spark_conf=conf) as driver:
        driver.running(0)
        jvm = int(driver.jvm())
        driver.finish(Mode.STOP)
        os.kill(jvm, signal.SIGKILL)
    return driver


@pytest.mark.default_spark
def test_a_listener_of_the_script_hears_of_the_end(tmp_path: Path) -> None:
    driver = stopped(tmp_path, {"spark.ui.enabled": "true", "spark.ui.port": "0"})
    assert STOPS not in driver.log.read_text()
    assert {"terminated", "atexit", "finally"} <= {file.name for file in tmp_path.iterdir()}


@pytest.mark.default_spark
def test_an_event_log_is_complete_though_the_jvm_is_killed(tmp_path: Path) -> None:
    logs = tmp_path / "events"
    logs.mkdir()
    driver = stopped(tmp_path, {"spark.eventLog.enabled": "true", "spark.eventLog.dir": uri_of(logs)})
    assert f"{STOPS}the listener org.apache.spark.scheduler.EventLoggingListener" in driver.log.read_text()
    assert list(logs.iterdir())
    assert not list(logs.rglob("*.inprogress"))
    assert (tmp_path / "terminated").exists()
