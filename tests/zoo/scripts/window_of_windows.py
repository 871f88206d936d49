"""A chain of stateful operators: windows over windows.

[zoo]
before = 5
during = 3
ends = false
[zoo.outputs]
outer = "window_of_windows(rows, inner=5, outer=10, delay=5, closed=closed)"
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("t timestamp, k string, v long").option("maxFilesPerTrigger", 1).json(source)
inner = events.withWatermark("t", "5 minutes").groupBy(F.window("t", "5 minutes").alias("w"), "k")
inner = inner.agg(F.sum("v").alias("s"))
outer = inner.groupBy(F.window(F.window_time("w"), "10 minutes").alias("w2")).agg(
    F.count("*").alias("n"), F.max("s").alias("largest")
)
outer = outer.select(F.col("w2.start").alias("start"), "n", "largest")
writer = outer.writeStream.queryName("outer").outputMode("append").option("path", f"{target}/outer")
writer = writer.option("checkpointLocation", f"{target}/_outer").trigger(processingTime="200 milliseconds")
writer.format("parquet").start().awaitTermination()
