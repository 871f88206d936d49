"""Batch work before, between and after the queries, and a pause after the last one that is longer than a moment.

[zoo]
at_end = "reported"
[zoo.outputs]
before = "totals(rows)"
copy = "fields(rows, 'k', 'v')"
between = "totals(rows)"
windows = "windows(rows, minutes=5, delay=10, closed=closed)"
after = "[{'n': len(rows)}]"
[zoo.only]
before = ["plain", "runtime", "stops", "kills"]
"""

import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("batch and stream").getOrCreate()
SCHEMA = "t timestamp, k string, v long"


def totals(frame):
    return frame.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))


totals(spark.read.schema(SCHEMA).json(source)).write.mode("overwrite").parquet(f"{target}/before")

events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
copy = events.select("k", "v").writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
copy.trigger(availableNow=True).start(f"{target}/copy", format="parquet").awaitTermination()

copied = spark.read.schema("k string, v long").parquet(f"{target}/copy")
totals(copied).write.mode("overwrite").parquet(f"{target}/between")
time.sleep(1)

counts = events.withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes").alias("w"), "k")
counts = counts.agg(F.count("*").alias("n"), F.sum("v").alias("s"))
writer = counts.select(F.col("w.start").alias("start"), "k", "n", "s").writeStream.queryName("windows")
writer = writer.option("checkpointLocation", f"{target}/_windows").trigger(availableNow=True)
writer.start(f"{target}/windows", format="parquet").awaitTermination()

time.sleep(4)
spark.createDataFrame([(copied.count(),)], "n long").write.mode("overwrite").json(f"{target}/after")
print("reported")
