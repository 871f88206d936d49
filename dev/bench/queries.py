"""A job of several queries, each of which counts the keys of its own stream. Plain PySpark.

Arguments: the number of queries, rows per micro-batch, the number of first batches of each query that do not
count, and a file for the durations of the others in seconds, one per line.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def main(queries: str, rows: str, warm: str, figures: str) -> None:
    spark = SparkSession.builder.appName("queries").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    started = []
    for n in range(int(queries)):
        rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", rows).load()
        counts = rate.groupBy((F.col("value") % 1000).alias("k")).count()
        writer = counts.writeStream.queryName(f"q{n}").outputMode("update").format("noop")
        started.append(writer.start())
    for query in started:
        query.awaitTermination()
    took = [
        p["durationMs"]["triggerExecution"] for query in started for p in query.recentProgress[int(warm) :]
    ]
    Path(figures).write_text("".join(f"{ms / 1000}\n" for ms in took))


if __name__ == "__main__":
    main(*sys.argv[1:])
