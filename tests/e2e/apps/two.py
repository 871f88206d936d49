"""apps/sums.py in two stages: copy writes the numbers to files, two shards of sums read them from there, a
part of the keys each, and write to a transactional sink.
"""

import sys
from collections.abc import Callable

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, timestamp_seconds, unix_seconds, window
from pyspark.sql.functions import sum as total

from streamjob import job
from streamjob.sinks import FileSink, TransactionalSink


def main(output: str, around: Callable[[TransactionalSink], TransactionalSink] = lambda sink: sink) -> None:
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
    for shard in job.shards("sums", 2):
        keys = [int(key) for key in shard.splits(["0", "1", "2"])]
        sums = (
            spark.readStream.schema("value long")
            .json(f"{output}-copy")
            .withColumn("time", timestamp_seconds(col("value") / 20))
            .withColumn("key", col("value") % 3)
            .where(col("key").isin(keys))
            .withWatermark("time", "5 seconds")
            .groupBy(window("time", "10 seconds"), "key")
            .agg(count("*").alias("n"), total("value").alias("sum"))
            .select(unix_seconds(col("window.start")).alias("start"), "key", "n", "sum")
        )
        writer = sums.writeStream.queryName(shard.name).outputMode("append")
        writer = writer.foreachBatch(around(FileSink(output, "json")))
        writer.trigger(processingTime="300 milliseconds").start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(sys.argv[1])
