"""The lag that a driver reports is that of the topic, the folder and the table, also while a batch hangs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from dev.broker import CONNECTORS, LINE, Kafka
from dev.demo.waiting import PATIENCE
from dev.localdriver import LocalDriver
from streamjob.protocol.messages.commands import Mode
from streamjob.protocol.messages.driver_config import CheckpointSettings

from .lakes import Lake

APP = Path(__file__).parent / "apps" / "lag.py"
PART, WHOLE = "streamjob_query_batch_duration_seconds", "triggerExecution"
Page = dict[tuple[str, str], float]  # (name without its prefix, stage) → value


def page_of(driver: LocalDriver) -> Page:
    found: Page = {}
    for family in text_string_to_metric_families(driver.metrics()):
        for sample in family.samples:
            assert (sample.labels["namespace"], sample.labels["streamjob"]) == ("default", "local")
            if sample.labels.get("part", WHOLE) == WHOLE:
                found[sample.name.removeprefix("streamjob_"), sample.labels["stage"]] = sample.value
    return found


def until(driver: LocalDriver, condition: Callable[[Page], bool]) -> Page:
    deadline, page = time.monotonic() + PATIENCE, {}
    while time.monotonic() < deadline:
        page = page_of(driver)
        if condition(page):
            return page
        time.sleep(0.2)
    raise AssertionError(f"{page}\n{driver.tail()}")


def behind(driver: LocalDriver, stage: str, expected: dict[str, float], oldest: float) -> None:
    """Wait until the lag is what is expected, and its age that of the oldest row or file.

    :param oldest: when it was written, seconds since 1970.
    """

    def lags(page: Page) -> dict[str, float | None]:
        return {unit: page.get((f"source_lag_{unit}", stage)) for unit in expected}

    begun = time.time()
    page = until(
        driver,
        lambda p: lags(p) == expected and p.get(("source_lag_seconds", stage), 0.0) >= begun - oldest - 0.1,
    )
    assert page["source_lag_seconds", stage] <= time.time() - oldest + 0.1


def of_files(count: int) -> dict[str, float]:
    """Spark 3.5 does not tell sizes."""
    return {"files": count} if LINE == "3.5" else {"files": count, "bytes": 6 * count}


@pytest.mark.slow
@pytest.mark.any_spark
def test_it_is_the_truth(spark: SparkSession, kafka: Kafka, tmp_path: Path) -> None:
    lake = Lake(tmp_path, "delta")
    folder = tmp_path / "in"
    folder.mkdir()

    def produce(count: int) -> None:
        rows = spark.range(0, count, 1, 1).selectExpr(
            "cast(id as string) value", "cast(id % 2 as int) partition"
        )
        rows.write.format("kafka").option("kafka.bootstrap.servers", kafka.address).option(
            "topic", "lag"
        ).save()

    def produced() -> list[tuple[int, int, float]]:
        """Partition, offset and time of each record."""
        read = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka.address)
        rows = (
            read.option("subscribe", "lag")
            .load()
            .selectExpr("partition", "offset", "cast(timestamp as double)")
        )
        return [(r[0], r[1], r[2]) for r in rows.collect()]

    def drop(name: str) -> float:
        (folder / f"{name}.txt").write_text("a row\n")
        return (folder / f"{name}.txt").stat().st_mtime

    def commit(rows: int) -> float:
        lake.sql(f"INSERT INTO {lake.name} SELECT /*+ COALESCE(1) */ id FROM range({rows})")
        newest = max((tmp_path / "table" / "_delta_log").glob("*.json"))
        (info,) = [
            a["commitInfo"] for a in map(json.loads, newest.read_text().splitlines()) if "commitInfo" in a
        ]
        return float(info["timestamp"]) / 1000

    produce(40)
    dropped = [drop(f"{i} ü") for i in range(4)]
    committed = [commit(3)]
    arguments = (str(tmp_path), kafka.address, "lag", str(folder), lake.table)
    conf = {**lake.settings, "spark.jars": f"{CONNECTORS},{lake.settings['spark.jars']}"}
    every = CheckpointSettings(interval=1.0)
    (tmp_path / "gate-0").touch()
    with LocalDriver(tmp_path, APP, *arguments, spark_conf=conf, checkpointing=every) as driver:
        driver.wait_for(lambda status: True)  # it serves
        # Batch 0 is committed, batch 1 hangs. The first batch reads five records of each partition.
        until(driver, lambda page: ("query_last_commit_timestamp_seconds", "topic") in page)
        behind(driver, "topic", {"rows": 30}, min(at for _, offset, at in produced() if offset >= 5))
        behind(driver, "files", of_files(3), dropped[1])
        # What comes while a batch hangs.
        produce(20)
        dropped.append(drop("later"))
        committed += [commit(5), commit(7)]
        behind(driver, "topic", {"rows": 50}, min(at for _, offset, at in produced() if offset >= 5))
        behind(driver, "files", of_files(4), dropped[1])
        # From batch 1 on the table is read commit by commit.
        behind(driver, "table", {"rows": 12, "files": 2}, committed[1])
        for batch in range(1, 60):
            (tmp_path / f"gate-{batch}").touch()
        names = [("source_lag_rows", "topic"), ("source_lag_files", "files"), ("source_lag_rows", "table")]
        ages = [("source_lag_seconds", stage) for stage in ("topic", "files", "table")]
        page = until(driver, lambda p: all(p.get(name) == 0 for name in (*names, *ages)))
        for stage in ("topic", "files", "table"):
            assert page["query_batch_duration_seconds", stage] >= 0
            assert 0 <= time.time() - page["query_last_commit_timestamp_seconds", stage] < PATIENCE
        driver.finish(Mode.STOP)
    lake.close()
