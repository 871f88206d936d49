"""Count departures and their mean delay per airport and hour, from Kafka to Parquet. Plain PySpark.

A row of the topic is a flight as JSON: {"time": "2013-01-01T10:15:00Z", "origin": "EWR", "delay": 2, ...}.
`time` is the scheduled departure, `delay` the minutes after it. A cancelled flight has no delay.
"""

import argparse

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import avg, col, count, from_json, window

SCHEMA = "time timestamp, origin string, dest string, carrier string, flight int, delay double"
LATENESS = "2 hours"  # how long a window stays open; later flights are not counted


def parsed(messages: DataFrame) -> DataFrame:
    """The flights in Kafka messages."""
    return messages.select(from_json(col("value").cast("string"), SCHEMA).alias("row")).select("row.*")


def hourly(flights: DataFrame) -> DataFrame:
    """One row per origin and hour. Works on a stream and on a table."""
    return (
        flights.where("delay is not null")
        .withWatermark("time", LATENESS)
        .groupBy(window("time", "1 hour"), "origin")
        .agg(count("*").alias("departures"), avg("delay").alias("mean_delay"))
        .select(col("window.start").alias("hour"), "origin", "departures", "mean_delay")
    )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", default="kafka:9092", help="Kafka's bootstrap servers")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--output", default="/data/flights/hourly", help="folder of the parquet files")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    spark = SparkSession.builder.appName("flights").getOrCreate()
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", args.brokers)
        .option("subscribe", args.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 20_000)
        .load()
    )
    query = (
        hourly(parsed(messages))
        .writeStream.queryName("hourly")
        .outputMode("append")
        .format("parquet")
        .trigger(processingTime="1 second")
        .start(args.output)
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
