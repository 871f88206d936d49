"""Inputs whose end the script declares: windows over files until a marker is there, the ticks of a source of
its own that says that it is done, and, given a broker, the rows of a topic up to certain offsets. Another
query runs on.

Arguments: input folder, home, and the broker and the JSON of the topic's end.
"""

import json
import sys
import time
from collections.abc import Iterator

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from streamjob import job

try:
    from windows import SCHEMA, windows  # started as a script
except ImportError:
    from .windows import SCHEMA, windows

TICKS = 5


class Ticks(DataSource):
    """The numbers from 0, and after some of them the end, which its offset tells."""

    @classmethod
    def name(cls) -> str:
        return "ticks"

    def schema(self) -> str:
        return "n long"

    def streamReader(self, schema: object) -> "TickReader":
        return TickReader()


class TickReader(DataSourceStreamReader):
    def __init__(self) -> None:
        self.at = 0

    def initialOffset(self) -> dict[str, object]:
        return {"n": 0, "done": False}

    def latestOffset(self) -> dict[str, object]:
        self.at = min(self.at + 1, TICKS)
        return {"n": self.at, "done": self.at == TICKS}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        self.at = max(self.at, end["n"])
        return [InputPartition((start["n"], end["n"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        first, end = partition.value
        return iter((n,) for n in range(first, end))


def main(source: str, home: str, broker: str = "", end: str = "{}") -> None:
    spark = SparkSession.builder.appName("bounded").getOrCreate()
    spark.dataSource.register(Ticks)
    often = {"processingTime": "100 milliseconds"}

    job.bounded(lambda offsets: offsets[0]["done"], "ticks")
    ticks = spark.readStream.format("ticks").load().writeStream.queryName("ticks")
    ticks = ticks.format("parquet").trigger(**often)
    started = ticks.start(f"{home}/ticks")
    # Spark gives the process of a Python source ten seconds to come up: other queries would take its share of
    # a busy machine, and on a very busy one the query has to be started again.
    while started.lastProgress is None:
        if started.exception() is not None:
            started = ticks.start(f"{home}/ticks")
        elif not started.isActive:
            break  # an earlier driver has finished it
        time.sleep(0.05)

    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    writer = windows(events).select("window.start", "k", "n", "s").writeStream.queryName("files")
    writer.format("parquet").trigger(**often).start(f"{home}/files")
    job.bounded(job.MarkerFile(f"{source}/_END"), "files")

    for topic, offsets in json.loads(end).items():
        until = job.KafkaEnd(topic, {int(p): n for p, n in offsets.items()})
        topics = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
        rows = (
            topics.option("subscribe", topic).option("startingOffsets", "earliest").load().where(until.rows)
        )
        values = rows.selectExpr("cast(value as string) as value").writeStream.queryName("topic")
        values.format("parquet").trigger(**often).start(f"{home}/topic")
        job.bounded(until, "topic")

    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    rate.writeStream.queryName("forever").format("noop").trigger(**often).start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
