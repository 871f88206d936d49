"""A backfill with availableNow, then the same query live, with the same checkpoint and name.

[zoo]
before = 4
during = 4
ends = false
[zoo.outputs]
counts = "windows(rows, minutes=5, delay=10, closed=closed)"
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()


def start(**trigger):
    events = (
        spark.readStream.schema("t timestamp, k string, v long").option("maxFilesPerTrigger", 2).json(source)
    )
    counts = (
        events.withWatermark("t", "10 minutes")
        .groupBy(F.window("t", "5 minutes"), "k")
        .agg(F.count("*").alias("n"), F.sum("v").alias("s"))
        .select(F.col("window.start").alias("start"), "k", "n", "s")
    )
    writer = counts.writeStream.queryName("counts").format("json").option("path", f"{target}/counts")
    return writer.option("checkpointLocation", f"{target}/checkpoint").trigger(**trigger).start()


backfill = start(availableNow=True)
backfill.awaitTermination()
print("backfill done, going live")
live = start(processingTime="300 milliseconds")
live.awaitTermination()
