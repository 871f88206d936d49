"""toTable, into a table that lies in a folder, and a batch query on it.

[zoo]
at_end = "done"
[zoo.outputs]
table = "windows(rows, minutes=5, delay=10, closed=closed)"
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("t timestamp, k string, v long").option("maxFilesPerTrigger", 1).json(source)
counts = events.withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes").alias("w"), "k")
counts = counts.agg(F.count("*").alias("n"), F.sum("v").alias("s"))
writer = counts.select(F.col("w.start").alias("start"), "k", "n", "s").writeStream.queryName("counts")
writer = writer.option("checkpointLocation", f"{target}/_counts").option("path", f"{target}/table")
query = writer.trigger(availableNow=True).toTable("counts", format="parquet", outputMode="append")
query.awaitTermination()
print(query.name, spark.table("counts").columns)
print("done")
