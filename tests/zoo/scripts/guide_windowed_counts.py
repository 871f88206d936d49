"""Spark's programming guide: counts of a window with a watermark, written to files. It runs until it is ended.

[zoo]
before = 4
during = 4
ends = false
at_end = "after awaitTermination"
[zoo.outputs]
counts = "windows(rows, minutes=5, delay=10, closed=closed)"
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, window
from pyspark.sql.functions import sum as sum_

source, target = sys.argv[1:3]
spark = SparkSession.builder.appName("StructuredNetworkWordCountWindowed").getOrCreate()

events = spark.readStream.schema("t timestamp, k string, v long").option("maxFilesPerTrigger", 1).json(source)
windowedCounts = (
    events.withWatermark("t", "10 minutes")
    .groupBy(window("t", "5 minutes"), "k")
    .agg(count("*").alias("n"), sum_("v").alias("s"))
)
query = (
    windowedCounts.select(col("window.start").alias("start"), "k", "n", "s")
    .writeStream.outputMode("append")
    .format("parquet")
    .option("path", f"{target}/counts")
    .option("checkpointLocation", f"{target}/checkpoint")
    .start()
)
query.awaitTermination()
print("after awaitTermination")
