"""A job whose stage `copy` has several shards: each copies its files.

Arguments: input folder, output folder, parallelism, seconds for a row of all shards but the first, and where
a query `all/0` (if any) writes what they have written. With SINK set in the environment all shards write to
one folder, through transactional sinks.
"""

import functools
import os
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamjob import job
from streamjob.sinks import FileSink


def main(source: str, out: str, parallelism: str, seconds: str = "0", total: str = "") -> None:
    spark = SparkSession.builder.appName("shards").getOrCreate()
    for shard in job.shards("copy", int(parallelism)):
        rows = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(shard.files(source))
        wait = float(seconds) if shard.index else 0.0
        slow = F.udf(lambda v, wait=wait: time.sleep(wait) or v, "long")
        writer = (
            rows.select(slow("v").alias("v")).writeStream.queryName(shard.name).trigger(availableNow=True)
        )
        if "SINK" in os.environ:
            writer.foreachBatch(FileSink(f"{out}/all", "json")).start()
        else:
            writer.format("json").start(f"{out}/{shard.index}")
    if total:
        # Each folder by itself: a pattern for all of them would also find files that a batch is still
        # writing.
        parts = [spark.readStream.schema("v long").json(f"{out}/{n}") for n in range(int(parallelism))]
        functools.reduce(DataFrame.union, parts).writeStream.queryName("all/0").format("json").start(total)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
