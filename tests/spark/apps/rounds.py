"""A script for a schedule: counts what there is in a folder and in a topic, per window. Each query ends by
itself.

Arguments: a folder, Kafka's address, a topic.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "t timestamp, k string, v long"


def windows(events: DataFrame) -> DataFrame:
    late = events.withWatermark("t", "10 minutes")
    return late.groupBy(F.window("t", "5 minutes"), "k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))


def parsed(rows: DataFrame) -> DataFrame:
    return rows.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("e")).select("e.*")


def main(home: str, address: str, topic: str) -> None:
    spark = SparkSession.builder.appName("rounds").getOrCreate()
    files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(f"{home}/in")
    kafka = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address)
    kafka = kafka.option("subscribe", topic).option("startingOffsets", "earliest")
    rows = parsed(kafka.option("maxOffsetsPerTrigger", 12).load())
    for name, events in (("files", files), ("kafka", rows)):
        writer = windows(events).writeStream.queryName(name).format("parquet").outputMode("append")
        writer.trigger(availableNow=True).start(f"{home}/{name}")
    for query in spark.streams.active:
        query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
