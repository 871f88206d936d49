"""A job whose stage `copy` has several shards: each copies its files. Arguments: input folder, output folder, parallelism,
seconds for a row of all shards but the first, and where a query `all/0` (if any) writes what they have written."""

import functools
import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from streamjob import job


def main(source: str, out: str, parallelism: str, seconds: str = "0", total: str = "") -> None:
    spark = SparkSession.builder.appName("shards").getOrCreate()
    for shard in job.shards("copy", int(parallelism)):
        rows = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(shard.files(source))
        wait = float(seconds) if shard.index else 0.0
        slow = F.udf(lambda v, wait=wait: time.sleep(wait) or v, "long")
        writer = rows.select(slow("v").alias("v")).writeStream.queryName(shard.name).format("json")
        writer.trigger(availableNow=True).start(f"{out}/{shard.index}")
    if total:
        # Each folder by itself: a pattern for all of them would also find files that a batch is still writing.
        parts = [spark.readStream.schema("v long").json(f"{out}/{n}") for n in range(int(parallelism))]
        functools.reduce(DataFrame.union, parts).writeStream.queryName("all/0").format("json").start(total)
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
