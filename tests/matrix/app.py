"""The ids of each five minutes, of each source: app.py TRIGGER OUTPUT SOURCE=INPUT…"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

PORTION = 25  # rows that one call of the Python source returns
trigger, out = sys.argv[1:3]
inputs = dict(given.split("=", 1) for given in sys.argv[3:])
spark = SparkSession.builder.getOrCreate()
ROWS = "id long, at timestamp"


class Progress(StreamingQueryListener):
    """Prints how many rows each batch of a query has read."""

    def onQueryStarted(self, event):
        pass

    def onQueryProgress(self, event):
        progress = event.progress
        sys.stdout.write(f"{progress.name} batch {progress.batchId} rows {progress.numInputRows}\n")
        sys.stdout.flush()

    def onQueryTerminated(self, event):
        pass


def portions(where):
    """A source in Python that returns some rows a call, whatever is left."""
    from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

    def rows(folder, first, end):
        found = sorted(Path(folder).glob("[!.]*.json"))
        everything = [json.loads(line) for file in found for line in file.read_text().splitlines()]
        return [(row["id"],) for row in everything if first <= row["id"] < end]

    class Reader(SimpleDataSourceStreamReader):
        def __init__(self, folder):
            self.folder = folder

        def initialOffset(self):
            return {"id": 0}

        def read(self, start):
            found = rows(self.folder, start["id"], start["id"] + PORTION)
            return iter(found), {"id": start["id"] + len(found)}

        def readBetweenOffsets(self, start, end):
            return iter(rows(self.folder, start["id"], end["id"]))

    class Portions(DataSource):
        @classmethod
        def name(cls):
            return "portions"

        def schema(self):
            return "id long"

        def simpleStreamReader(self, schema):
            return Reader(self.options["folder"])

    spark.dataSource.register(Portions)
    return spark.readStream.format("portions").option("folder", where).load()


def kafka(where, **limit):
    servers, topic = where.split("/")
    read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    read = read.option("subscribe", topic).option("startingOffsets", "earliest").options(**limit)
    return read.load().select(F.from_json(F.col("value").cast("string"), ROWS).alias("row")).select("row.*")


def rate(where):
    pace = {"rowsPerBatch": 20, "startTimestamp": 1767225600000, "advanceMillisPerBatch": 600000}
    return spark.readStream.format("rate-micro-batch").options(**pace).load().withColumnRenamed("value", "id")


def chain(_):
    folder = Path(out, "files")
    folder.mkdir(parents=True, exist_ok=True)
    read = spark.readStream.schema("start long, ids array<long>").option("maxFilesPerTrigger", 1)
    return read.json(str(folder)).select(F.explode("ids").alias("id"))


SOURCES = {
    "files": lambda where: spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).json(where),
    "kafka": kafka,
    "kafka-max": lambda where: kafka(where, maxOffsetsPerTrigger=30),
    "kafka-min": lambda where: kafka(where, minOffsetsPerTrigger=50, maxTriggerDelay="3s"),
    "delta": lambda where: spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(where),
    "iceberg": lambda where: (
        spark.readStream.format("iceberg").option("streaming-max-files-per-micro-batch", 1).load(where)
    ),
    "portions": portions,
    "rate": rate,
    "chain": chain,
}
TRIGGERS = {
    "default": {},
    "interval": {"processingTime": "1 second"},
    "available": {"availableNow": True},
    "once": {"once": True},
}
spark.streams.addListener(Progress())
# A row's time follows from its id, so that each source need only have the id.
at = F.timestamp_seconds(F.lit(1767225600) + F.col("id") * 30)
# What it holds back comes out at once at its end, in front of a query whose watermark is closer.
held_back = "files" if "chain" in inputs else None
for source, where in inputs.items():
    windows = (
        SOURCES[source](where)
        .select("id", at.alias("at"))
        .withWatermark("at", "60 minutes" if source == held_back else "10 minutes")
        .groupBy(F.window("at", "5 minutes"))
        .agg(F.collect_list("id").alias("ids"))
    )
    windows = windows.select(F.unix_seconds("window.start").alias("start"), "ids")
    if source == held_back:
        windows = windows.repartition(5)  # in files, which the next query reads one by one
    writer = windows.writeStream
    writer = writer.queryName(source).format("json")
    writer = writer.option("checkpointLocation", f"{out}-checkpoints/{source}")
    if TRIGGERS[trigger]:
        writer = writer.trigger(**TRIGGERS[trigger])
    writer.start(f"{out}/{source}")
while spark.streams.active:
    spark.streams.awaitAnyTermination()
    spark.streams.resetTerminated()
