"""A job of several queries, each counting keys of a stream of its own. Plain PySpark.

Arguments: how many, rows in a micro-batch of each, how many batches of each do not count, a file that gets the seconds of the
others, one a line.
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
