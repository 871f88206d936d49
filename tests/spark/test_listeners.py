"""A StreamingQueryListener that ends the process when a query has terminated, so that it is started again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from streamjob.protocol.messages.commands import Mode

from .scripts import Script, await_batch, said

APP = """
import os
from pyspark.sql.streaming import StreamingQueryListener

class Watchdog(StreamingQueryListener):
    def onQueryStarted(self, event): pass
    def onQueryProgress(self, event): pass
    def onQueryIdle(self, event): pass
    def onQueryTerminated(self, event):
        say("terminated", event.exception)
        threading.Timer(1, os._exit, [1]).start()

spark.streams.addListener(Watchdog())
start("only", windows(read("in")))
try:
    spark.streams.awaitAnyTermination()
finally:
    time.sleep(2)  # longer than the watchdog waits
    say("has cleaned up")
"""


@pytest.mark.default_spark
@pytest.mark.slow
def test_a_listener_hears_of_the_end_after_the_savepoint_and_the_script(
    spark: SparkSession, tmp_path: Path
) -> None:
    script = Script(tmp_path, APP)
    for minute in range(3):
        script.feed.minutes(minute * 10, minute * 10 + 10)
    with script.driver() as first:
        await_batch(first, "only", 0)
        assert first.finish(Mode.STOP).savepoint
    assert said(first.log) == ["has cleaned up", "terminated None"]
    with script.next(first) as second:
        await_batch(second, "only", 2)
        assert second.finish(Mode.DRAIN).drained
    assert said(second.log)[0] == "has cleaned up"
    assert set(said(second.log)[1:]) == {"terminated None"}
    assert script.values(spark, "only") == script.windows(spark)
