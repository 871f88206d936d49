"""A driver stops its Spark context before its process ends, so nothing that listens to Spark is cut off."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from streamjob.protocol.messages.commands import Mode
from streamjob.storage.local_disk import uri_of

from .scripts import Script

APP = """
from pyspark.sql.streaming import StreamingQueryListener

class Listener(StreamingQueryListener):
    def onQueryStarted(self, event): pass
    def onQueryProgress(self, event): pass
    def onQueryIdle(self, event): pass
    def onQueryTerminated(self, event):
        time.sleep(11)  # longer than Spark itself waits for its events
        Path(home, "terminated").touch()

spark.streams.addListener(Listener())
atexit.register(Path(home, "atexit").touch)
query = start("main", windows(read("in")))
try:
    query.awaitTermination()
finally:
    Path(home, "finally").touch()
"""


@pytest.mark.default_spark
@pytest.mark.slow
def test_an_event_log_and_a_listener_of_the_script_hear_of_the_end(tmp_path: Path) -> None:
    """The JVM is killed when the driver's process ends, as the end of a container does it."""
    script, logs = Script(tmp_path, APP), tmp_path / "events"
    logs.mkdir()
    script.feed.add([{"t": "2026-01-01T00:00:00Z", "k": "a", "v": 1}])
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": uri_of(logs)}
    with script.driver(spark_conf=conf) as driver:
        driver.running(0)
        jvm = int(driver.jvm())
        driver.finish(Mode.STOP)
        os.kill(jvm, signal.SIGKILL)
    assert {"terminated", "atexit", "finally"} <= {file.name for file in tmp_path.iterdir()}
    assert list(logs.iterdir())
    assert not list(logs.rglob("*.inprogress"))
