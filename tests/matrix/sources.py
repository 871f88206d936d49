"""The sources of the matrix, what they hold, and how it comes there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from dev.broker import CONNECTORS, Kafka
from dev.tables import jars
from tests.zoo.running import SETTINGS, environment

from .cases import CHAIN, ENDLESS, Case

UNIT = 20  # rows of a file, a commit, or what is sent to a topic at a time
BEFORE, DURING = 6, 4  # units that are there at the start, and that come while the job runs
ROWS = UNIT * (BEFORE + DURING)
START, STEP, WINDOW = 1767225600, 30, 300  # seconds: the time of row 0, between two rows, of a window
PARTITIONS = 2  # of a topic
FED = ("kafka", "delta", "iceberg")  # the others read the files, or make their rows

# In a process of its own, as somebody else does: units of a folder into the topic and the tables, in order.
FEED = """
import sys
from pyspark.sql import SparkSession
targets, units = dict(given.split("=", 1) for given in sys.argv[1].split()), sys.argv[2:]
spark = SparkSession.builder.getOrCreate()
for unit in units:
    rows = spark.read.schema("id long").json(unit).coalesce(1)
    if topic := targets.get("kafka"):
        servers, topic = topic.split("/")
        sent = rows.selectExpr("to_json(struct(id)) AS value", f"cast(id % {PARTITIONS} as int) AS partition")
        sent.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic).save()
    if table := targets.get("delta"):
        rows.write.format("delta").mode("append").save(table)
    if table := targets.get("iceberg"):
        exists = spark.catalog.tableExists(table)
        (rows.writeTo(table).append() if exists else rows.writeTo(table).using("iceberg").create())
""".replace("{PARTITIONS}", str(PARTITIONS))


class Sources:
    """The sources of one job. They all get the same rows.

    :param home: a folder of their own. Its name is that of the topic.
    :param kafka: None if no query reads from it.
    """

    def __init__(self, home: Path, case: Case, kafka: Kafka | None) -> None:
        self.home = home
        self._fed = [name for name in FED if name in case.sources]
        self._kafka = kafka
        self._units = home / "units"
        self._units.mkdir(parents=True)
        self._next = 0

    def where(self, name: str) -> str:
        """Where a query reads the source of this name."""
        places = {"delta": str(self.home / "table"), "iceberg": "lake.db.rows", ENDLESS: "", CHAIN: ""}
        if name.startswith("kafka"):
            assert self._kafka is not None
            return f"{self._kafka.address}/{self.home.name}"
        return places.get(name, str(self._units))

    def variables(self) -> dict[str, str]:
        """Environment of a process that reads or fills them."""
        conf = SETTINGS | {
            "spark.jars": f"{CONNECTORS},{jars()}",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(self.home / "lake"),
        }
        settings = " ".join(f"--conf {key}={value}" for key, value in conf.items())
        return {**environment(), "PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell"}

    def fill(self, units: int) -> None:
        """Add some units. Returns when they are there."""
        new = [self._add_file() for _ in range(units)]
        if not new or not self._fed:
            return
        targets = " ".join(f"{name}={self.where(name)}" for name in self._fed)
        done = subprocess.run(
            [sys.executable, "-c", FEED, targets, *new],
            env={**os.environ, **self.variables()},
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]

    def _add_file(self) -> str:
        ids = range(self._next * UNIT, (self._next + 1) * UNIT)
        hidden, file = self._units / f".{self._next:03}.json", self._units / f"{self._next:03}.json"
        hidden.write_text("".join(json.dumps({"id": i}) + "\n" for i in ids))
        when = time.time() + self._next  # Spark reads files in the order of their times
        os.utime(hidden, (when, when))
        hidden.rename(file)
        self._next += 1
        return str(file)


def partitions(name: str) -> list[list[int]]:
    """The ids of each partition of a source that has an end, in order."""
    n = PARTITIONS if name.startswith("kafka") else 1
    return [list(range(p, ROWS, n)) for p in range(n)]
