"""Drivers that are killed at random moments while they write to Delta and Iceberg tables as users do."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable
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
# Arguments: the folder, files for each batch, and the queries to start, by the names of their tables.
APP = """
files = int(sys.argv[2])


def start(name):
    return read("in", files).select("v").writeStream.queryName(name).trigger(**OFTEN)


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


for name in sys.argv[3:]:
    if name == "path":
        start(name).format("delta").start(f"{home}/path")
    elif name == "named":
        spark.sql(f"CREATE TABLE IF NOT EXISTS named (v BIGINT) USING delta LOCATION '{home}/named'")
        start(name).format("delta").toTable("named")
    elif name == "appended":
        start(name).foreachBatch(append).start()
    elif name == "merged":
        start(name).foreachBatch(merge(f"delta.`{home}/merged`")).start()
    elif name == "ice":
        start(name).toTable("`ice-lake`.db.ice")
    elif name == "ice_merged":
        start(name).foreachBatch(merge("`ice-lake`.db.ice_merged")).start()
spark.streams.awaitAnyTermination()
"""
STREAMS = {"path": "delta", "named": "delta", "ice": "iceberg"}  # by table: its format
FUNCTIONS = {"appended": "delta", "merged": "delta", "ice_merged": "iceberg"}


def commits(home: Path) -> int:
    """Those of all queries in Spark's commit logs."""
    return len(list((home / "checkpoints").glob("*/0/commits/[0-9]*")))


def await_commit(home: Path, driver: LocalDriver) -> None:
    before = commits(home)
    eventually(lambda: commits(home) > before or driver.process.poll() is not None, "a batch")
    assert driver.process.poll() is None, driver.tail()


@pytest.mark.parametrize("ways", [STREAMS, FUNCTIONS], ids=["streams", "functions"])
def test_every_row_is_in_every_table_once(tmp_path: Path, ways: dict[str, str]) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    lake, script = Lake(tmp_path, formats()[0]), Script(tmp_path, APP)
    tables = {
        name: f"delta.`{tmp_path}/{name}`" if form == "delta" else f"`ice-lake`.db.{name}"
        for name, form in ways.items()
        if form in formats()
    }
    for name, table in tables.items():
        lake.sql(f"CREATE TABLE {table} (v BIGINT) USING {ways[name]}")
    values = 0
    driver: LocalDriver | None = None
    for _ in range(KILLS):
        for _ in range(4):
            script.feed.minutes(values, values + 1)
            values += 1
        with _next(script, lake, driver, 2, tables) as driver:
            await_commit(tmp_path, driver)
            time.sleep(chance.uniform(0, 3))  # the moment of the kill is what is tried
    with _next(script, lake, driver, 50, tables) as driver:
        for table in tables.values():
            await_rows(lake, table, values)
        driver.finish(Mode.DRAIN)
    found = {name: lake.values(table) for name, table in tables.items()}
    assert found == {name: list(range(values)) for name in tables}
    lake.close()


def await_rows(lake: Lake, table: str, number: int) -> None:
    eventually(lambda: len(lake.values(table)) >= number, f"{number} rows of {table}")


def _next(
    script: Script, lake: Lake, before: LocalDriver | None, files: int, names: Iterable[str]
) -> LocalDriver:
    if before is None:
        return script.driver(str(files), *names, spark_conf=lake.settings)
    return script.next(before, str(files), *names, spark_conf=lake.settings)
