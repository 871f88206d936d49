"""Drivers that are killed at random moments while they write to Delta and Iceberg tables in the usual ways."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from dev.localdriver import LocalDriver
from dev.tables import formats
from streamjob.protocol.messages.commands import Mode

from .feeds import eventually
from .lakes import Lake
from .scripts import Script

KILLS = int(os.environ.get("STREAMJOB_KILLS", "30"))
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not formats(), reason="neither format exists for this Spark"),
]
APP = """
def start(name):
    return read("in").select("v").writeStream.queryName(name).trigger(**OFTEN)


def append(frame, batch):
    writer = frame.write.format("delta").mode("append")
    writer.option("txnAppId", "lake").option("txnVersion", batch).save(f"{home}/appended")


def merge(table):
    def write(frame, batch):
        frame.createOrReplaceTempView("batch")
        frame.sparkSession.sql(
            f"MERGE INTO {table} t USING batch b ON t.v = b.v WHEN NOT MATCHED THEN INSERT *"
        )
    return write


if "delta" in sys.argv:
    spark.sql(f"CREATE TABLE IF NOT EXISTS named (v BIGINT) USING delta LOCATION '{home}/named'")
    start("delta").format("delta").start(f"{home}/delta")
    start("named").format("delta").toTable("named")
    start("appended").foreachBatch(append).start()
    start("merged").foreachBatch(merge(f"delta.`{home}/merged`")).start()
if "iceberg" in sys.argv:
    start("iceberg").toTable("ice.db.iceberg")
    start("ice-merged").foreachBatch(merge("ice.db.merged")).start()
spark.streams.awaitAnyTermination()
"""


def tables(home: Path) -> dict[str, str]:
    """As SQL names them, with their formats."""
    folders = {f"delta.`{home}/{name}`": "delta" for name in ("delta", "named", "appended", "merged")}
    names = {"ice.db.iceberg": "iceberg", "ice.db.merged": "iceberg"}
    return {name: form for name, form in {**folders, **names}.items() if form in formats()}


def commits(home: Path) -> int:
    """Those of all queries in Spark's commit logs."""
    return len(list((home / "checkpoints").glob("*/0/commits/[0-9]*")))


def await_commit(home: Path, driver: LocalDriver) -> None:
    before = commits(home)
    eventually(lambda: commits(home) > before or driver.process.poll() is not None, "a batch")
    assert driver.process.poll() is None, driver.tail()


def test_every_row_is_in_every_table_once(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    lake, script = Lake(tmp_path, formats()[0]), Script(tmp_path, APP)
    for name, form in tables(tmp_path).items():
        lake.sql(f"CREATE TABLE {name} (v BIGINT) USING {form}")
    values = 0
    driver: LocalDriver | None = None
    for _ in range(KILLS):
        for _ in range(4):
            script.feed.minutes(values, values + 1)
            values += 1
        with _next(script, lake, driver) as driver:
            await_commit(tmp_path, driver)
            time.sleep(chance.uniform(0, 3))  # the moment of the kill is what is tried
    with _next(script, lake, driver) as driver:
        for name in tables(tmp_path):
            eventually(lambda name=name: len(lake.values(name)) >= values, f"all rows of {name}")
        driver.finish(Mode.DRAIN)
    found = {name: lake.values(name) for name in tables(tmp_path)}
    assert found == {name: list(range(values)) for name in found}
    lake.close()


def _next(script: Script, lake: Lake, before: LocalDriver | None) -> LocalDriver:
    if before is None:
        return script.driver(*formats(), spark_conf=lake.settings)
    return script.next(before, *formats(), spark_conf=lake.settings)
