"""A source in Python that gives seven rows of its table a call, counted per window: each start reads what is left,
however many calls that takes (SPARK-45178).

[zoo]
before = 4
during = 2
ends = false
[zoo.not]
drain = "it may end within a file"
[zoo.outputs]
counts = "windows(rows, minutes=5, delay=10, closed=closed)"
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

source, target = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()


class Table(DataSource):
    @classmethod
    def name(cls):
        return "table"

    def schema(self):
        return "t string, k string, v long"

    def simpleStreamReader(self, schema):
        return Reader(self.options["folder"])


class Reader(SimpleDataSourceStreamReader):
    def __init__(self, folder):
        self.folder = folder

    def initialOffset(self):
        return {"row": 0}

    def read(self, start):
        rows = self.rows()[start["row"] : start["row"] + 7]
        return iter(rows), {"row": start["row"] + len(rows)}

    def readBetweenOffsets(self, start, end):
        return iter(self.rows()[start["row"] : end["row"]])

    def rows(self):
        found = []
        for file in sorted(Path(self.folder).glob("*.json")):
            found += [json.loads(line) for line in file.read_text().splitlines()]
        return [(row["t"], row["k"], row["v"]) for row in found]


spark.dataSource.register(Table)
events = spark.readStream.format("table").option("folder", source).load()
events = events.withColumn("t", F.col("t").cast("timestamp")).withWatermark("t", "10 minutes")
counts = events.groupBy(F.window("t", "5 minutes").alias("w"), "k")
counts = counts.agg(F.count("*").alias("n"), F.sum("v").alias("s"))
writer = counts.select(F.col("w.start").alias("start"), "k", "n", "s").writeStream.queryName("counts")
writer = writer.option("checkpointLocation", f"{target}/_counts").option("path", f"{target}/counts")
writer.trigger(processingTime="200 milliseconds").format("json").start()
spark.streams.awaitAnyTermination()
