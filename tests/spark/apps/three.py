"""Three stages and two branches: readings of a Kafka topic → files → totals of two shards in a PostgreSQL
table, and hours in files, by a query that runs out of input. Arguments: broker, home, JDBC URL.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamjob import job
from streamjob.sinks import FileSink, PostgresSink

try:
    import killer  # started as a script
except ImportError:
    from . import killer

SCHEMA = "t timestamp, k long, v long"
LATENESS = "2 hours"  # what is produced at once is spread over two partitions, so it comes out of order


def parsed(messages: DataFrame) -> DataFrame:
    return messages.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("row")).select("row.*")


def totals(rows: DataFrame) -> DataFrame:
    late = rows.withWatermark("t", LATENESS).groupBy(F.window("t", "5 minutes"), "k")
    counted = late.agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    return counted.selectExpr("unix_seconds(window.start) AS start", "k", "n", "s")


def hours(rows: DataFrame) -> DataFrame:
    counted = rows.withWatermark("t", LATENESS).groupBy(F.window("t", "1 hour")).agg(F.sum("v").alias("s"))
    return counted.selectExpr("unix_seconds(window.start) AS start", "s")


def main(broker: str, home: str, url: str) -> None:
    killer.install()
    spark = SparkSession.builder.appName("three").getOrCreate()
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker)
    source = source.option("subscribe", "readings").option("startingOffsets", "earliest")
    ingest = parsed(source.option("maxOffsetsPerTrigger", 200).load()).writeStream.queryName("ingest")
    ingest.format("json").trigger(processingTime="100 milliseconds").start(f"{home}/clean")

    def clean() -> DataFrame:
        return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 2).json(f"{home}/clean")

    for shard in job.shards("totals", 2):
        keys = [int(key) for key in shard.splits(["0", "1", "2", "3"])]
        writer = totals(clean().where(F.col("k").isin(keys))).writeStream.queryName(shard.name)
        writer = writer.foreachBatch(killer.Deadly(PostgresSink(url, "totals"))).outputMode("append")
        writer.trigger(processingTime="100 milliseconds").start()

    bounded = hours(clean()).writeStream.queryName("hours").outputMode("append")
    bounded.foreachBatch(FileSink(f"{home}/hours")).trigger(availableNow=True).start()

    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
