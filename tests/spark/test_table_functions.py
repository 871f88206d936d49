"""A foreachBatch function that writes to a Delta table with `txnAppId`, after the job began another line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.localdriver import LocalDriver
from dev.tables import formats
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import Restore

from .lakes import Lake
from .scripts import Script
from .test_tables import await_values, feed, problem

pytestmark = [
    pytest.mark.default_spark,
    pytest.mark.timeout(900),
    pytest.mark.skipif("delta" not in formats(), reason="there is no Delta Lake for this Spark"),
]
APP = """
def append(frame, batch):
    writer = frame.write.format("delta").mode("append").option("txnAppId", sys.argv[2])
    try:
        writer.option("txnVersion", batch).save(f"{home}/table")
    except Exception as e:
        say(type(e).__name__)  # as of a script that goes on whatever happens


read("in").select("v").writeStream.queryName("lake").trigger(**OFTEN).foreachBatch(append).start()
spark.streams.awaitAnyTermination()
"""


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    made = Lake(tmp_path, "delta")
    yield made
    made.close()


@pytest.mark.slow
def test_a_new_batch_that_delta_would_skip_is_refused(lake: Lake, tmp_path: Path) -> None:
    """Delta keeps the last version of an id when the table is restored. Without the refusal, 4 is lost."""
    script = Script(tmp_path, APP)
    feed(script, 0, 2)
    with script.driver("orders", spark_conf=lake.settings) as driver:
        await_values(lake, driver, 2)
        savepoint = driver.finish(Mode.STOP).savepoint
    older = lake.version_with(2)
    feed(script, 2, 4)
    with script.next(driver, "orders", spark_conf=lake.settings) as driver:
        await_values(lake, driver, 4)
        driver.finish(Mode.STOP)
    lake.back_to(older)
    feed(script, 4, 5)

    def another(app: str, epoch: int) -> LocalDriver:
        home = tmp_path / "another"
        home.mkdir(exist_ok=True)
        restore = Restore(savepoint=savepoint)
        args = (str(tmp_path), app)
        return LocalDriver(home, script.file, *args, spark_conf=lake.settings, restore=restore, epoch=epoch)

    message, remedy = problem(another("orders", 1))
    assert "has the txnAppId 'orders' up to 3, and query 'lake' writes its new batch 2" in message
    assert "another txnAppId" in remedy
    assert lake.values() == [0, 1]
    with another("orders-2", 2) as driver:
        await_values(lake, driver, 5)
        driver.finish(Mode.STOP)
    assert lake.values() == [0, 1, 2, 3, 4]
