"""What the sources of the matrix hold, and how it comes there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dev.broker import CONNECTORS, Kafka
from dev.tables import formats, jars
from tests.zoo.running import SETTINGS, environment

UNIT = 20  # rows of a file, a commit, or what is sent to a topic at a time
BEFORE, DURING = 6, 4  # units that are there at the start, and that come while the job runs
ROWS = UNIT * (BEFORE + DURING)
START, STEP, WINDOW = 1767225600, 30, 300  # seconds: the time of row 0, between two rows, of a window
PARTITIONS = 2  # of a topic

# In a process of its own, as somebody else does: units of a folder into a table or a topic, in order.
FEED = """
import json, sys
from pyspark.sql import SparkSession
form, target, *units = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
for unit in units:
    rows = spark.read.schema("id long").json(unit).coalesce(1)
    if form == "kafka":
        servers, topic = target.split("/")
        rows = rows.selectExpr("to_json(struct(id)) AS value", f"cast(id % {PARTITIONS} as int) AS partition")
        rows.write.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", topic).save()
    elif form == "delta":
        rows.write.format("delta").mode("append").save(target)
    else:
        exists = spark.catalog.tableExists(target)
        (rows.writeTo(target).append() if exists else rows.writeTo(target).using("iceberg").create())
""".replace("{PARTITIONS}", str(PARTITIONS))


@dataclass
class Source:
    """One source of one job.

    :ivar name: as app.py has it.
    :ivar home: a folder of its own.
    """

    name: str
    home: Path
    kafka: Kafka | None = None

    def __post_init__(self) -> None:
        self.units = self.home / "units"
        self.units.mkdir(parents=True)
        self._next = 0

    @cached_property
    def form(self) -> str:
        return self.name.split("-")[0]

    @property
    def where(self) -> str:
        if self.form == "kafka":
            assert self.kafka is not None
            return f"{self.kafka.address}/{self.home.name}"
        return {"iceberg": "lake.db.rows", "delta": str(self.home / "table")}.get(self.form, str(self.units))

    @property
    def endless(self) -> bool:
        """Whether it goes on for ever by itself."""
        return self.form == "rate"

    @property
    def partitions(self) -> list[list[int]]:
        """The ids of each partition, in order."""
        n = PARTITIONS if self.form == "kafka" else 1
        return [list(range(p, ROWS, n)) for p in range(n)]

    def variables(self) -> dict[str, str]:
        """Environment of a process that reads or fills it."""
        conf = dict(SETTINGS)
        if self.form == "kafka":
            conf["spark.jars"] = CONNECTORS
        elif self.form in formats():
            conf["spark.jars"] = jars()
        if self.form == "delta":
            conf["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
            conf["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        elif self.form == "iceberg":
            conf["spark.sql.catalog.lake"] = "org.apache.iceberg.spark.SparkCatalog"
            conf["spark.sql.catalog.lake.type"] = "hadoop"
            conf["spark.sql.catalog.lake.warehouse"] = str(self.home / "lake")
        settings = " ".join(f"--conf {key}={value}" for key, value in conf.items())
        return {**environment(), "PYSPARK_SUBMIT_ARGS": f"{settings} pyspark-shell"}

    def fill(self, units: int) -> None:
        """Add some units. Returns when they are there."""
        new = []
        for _ in range(units):
            ids = range(self._next * UNIT, (self._next + 1) * UNIT)
            hidden, file = self.units / f".{self._next:03}.json", self.units / f"{self._next:03}.json"
            hidden.write_text("".join(json.dumps({"id": i}) + "\n" for i in ids))
            when = time.time() + self._next  # Spark reads files in the order of their times
            os.utime(hidden, (when, when))
            hidden.rename(file)
            new.append(str(file))
            self._next += 1
        if self.form in ("kafka", "delta", "iceberg"):
            command = [sys.executable, "-c", FEED, self.form, self.where, *new]
            done = subprocess.run(
                command,
                env={**os.environ, **self.variables()},
                cwd=self.home,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-2000:]
