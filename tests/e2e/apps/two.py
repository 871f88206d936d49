"""apps/sums.py in two queries: copy writes the numbers to files, sums reads them from there."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, timestamp_seconds, unix_seconds, window
from pyspark.sql.functions import sum as total


def main(output: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 100)
        .option("numPartitions", 1)
        .load()
        .select("value")
    )
    copy = numbers.writeStream.queryName("copy").format("json").trigger(processingTime="300 milliseconds")
    copy.start(f"{output}-copy")
    sums = (
        spark.readStream.schema("value long")
        .json(f"{output}-copy")
        .withColumn("time", timestamp_seconds(col("value") / 20))
        .withColumn("key", col("value") % 3)
        .withWatermark("time", "5 seconds")
        .groupBy(window("time", "10 seconds"), "key")
        .agg(count("*").alias("n"), total("value").alias("sum"))
        .select(unix_seconds(col("window.start")).alias("start"), "key", "n", "sum")
    )
    sums.writeStream.queryName("sums").outputMode("append").format("json").start(output)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1])
