"""What an upgrade does to a job's state, on real Spark: a stop that copies nothing, and a way back behind a
script that fails.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dev.localdriver import LocalDriver
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.commands import Mode, TerminationRequest
from streamjob.protocol.messages.driver_config import Restore
from streamjob.protocol.messages.driver_status import DriverPhase

from .feeds import eventually
from .job import APP, Feed

pytestmark = pytest.mark.any_spark


@pytest.mark.slow
def test_row13_the_old_script_goes_on_where_the_new_one_has_failed(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    """The new one dies in its first batch, whose offsets are in the log by then: the old one runs that batch,
    once.
    """
    feed.add(4)
    with LocalDriver(tmp_path, APP, *feed.arguments()) as first:
        first.running(2)
        code, _ = first.call("PUT", "/v1/termination", TerminationRequest("upgrade-1-2", 1, Mode.STOP, None))
        assert code == 202
        stopped = first.finish()
    assert (stopped.request_id, stopped.savepoint) == ("upgrade-1-2", None)
    assert (stopped.scenario, stopped.drained) == (Scenario.STOP, False)
    assert not (tmp_path / "savepoints").exists()
    committed = first.boundary()[1]
    feed.add(4)
    text = APP.read_text()
    assert "time.sleep(0.05) or v" in text
    broken = tmp_path / "broken.py"
    broken.write_text(text.replace("time.sleep(0.05) or v", "1 // 0"))
    with first.next_epoch(broken, *feed.arguments("slow")) as second:
        assert second.wait() == 1
    problem = second.report().problem
    assert problem is not None
    assert "ZeroDivisionError" in problem.message
    assert second.boundary() == (committed + 1, committed), "a batch is planned and not committed"
    restore = Restore(latest=stopped, exact=False)
    again = LocalDriver(tmp_path, APP, *feed.arguments(), epoch=3, restore=restore, next_checkpoint=2)
    with again as third:
        third.running(committed + 1)
        directory = tmp_path / "checkpoints" / "main" / "0"
        eventually(lambda: len(feed.read_files(directory)) == 8, "all is read")
        drained = third.finish(Mode.DRAIN)
    assert drained.drained
    assert third.report().phase is DriverPhase.TERMINATED
    assert feed.output(spark) == feed.expected(spark)
