"""Sums of the numbers 0, 1, 2, … in windows of event time.

How many numbers were read says what the output must be.

sums.py OUTPUT [PAUSE] [HOLD] [TRIGGER]      PAUSE: seconds that every row of the output takes
                                             HOLD: it waits while this file is there
                                             TRIGGER: the interval of its batches; `now`: availableNow
"""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, timestamp_seconds, udf, unix_seconds, window
from pyspark.sql.functions import sum as total


def main(output: str, pause: str = "", hold: str = "", trigger: str = "300 milliseconds") -> None:
    spark = SparkSession.builder.getOrCreate()
    numbers = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", 100)
        .option("numPartitions", 1)
        .load()
    )
    sums = (
        numbers.withColumn("time", timestamp_seconds(col("value") / 20))
        .withColumn("key", col("value") % 3)
        .withWatermark("time", "5 seconds")
        .groupBy(window("time", "10 seconds"), "key")
        .agg(count("*").alias("n"), total("value").alias("sum"))
        .select(unix_seconds(col("window.start")).alias("start"), "key", "n", "sum")
    )

    def late(n: int) -> int:
        time.sleep(float(pause or 0))
        while hold and Path(hold).exists():
            Path(f"{hold}.reached").touch()
            time.sleep(0.1)
        return n

    if pause or hold:
        sums = sums.withColumn("n", udf(late, "long")("n"))
    query = (
        sums.writeStream.queryName("sums")
        .outputMode("append")
        .format("json")
        .trigger(**{"availableNow": True} if trigger == "now" else {"processingTime": trigger})
        .start(output)
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
