"""A scheduled job: one batch of all that has arrived, which takes a while, counted per window. A start after a
kill only repeats that batch, and has to read on (SPARK-39805).

[zoo]
at_end = "counted"
[zoo.outputs]
counts = "windows(rows, minutes=5, delay=10, closed=closed)"
[zoo.only]
counts = ["runtime", "stops", "kills", "drain"]    # plain Spark has no second batch that would write a window
"""

import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("t timestamp, k string, v long").json(source)
counts = events.withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes").alias("w"), "k")
counts = counts.agg(F.count("*").alias("n"), F.sum("v").alias("s"))


def write(batch, number):
    time.sleep(3)
    batch.write.mode("overwrite").json(f"{target}/counts/batch={number}")


writer = counts.select(F.col("w.start").alias("start"), "k", "n", "s").writeStream.queryName("counts")
writer = writer.option("checkpointLocation", f"{target}/_counts").foreachBatch(write)
writer.outputMode("append").trigger(once=True).start().awaitTermination()
print("counted")
