"""spark.stop(), and a new session afterwards that starts another query.

[zoo]
at_end = "both sessions done"
[zoo.outputs]
copy = "fields(rows, 't', 'k', 'v')"
counts = "windows(rows, minutes=5, delay=5, closed=closed)"
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
SCHEMA = "t timestamp, k string, v long"


def first():
    spark = SparkSession.builder.appName("first").getOrCreate()
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
    writer.trigger(availableNow=True).start(f"{target}/copy", format="parquet").awaitTermination()
    spark.stop()


def second():
    spark = SparkSession.builder.appName("second").getOrCreate()
    print("a context of its own:", spark.sparkContext.appName)
    events = spark.readStream.schema(SCHEMA).parquet(f"{target}/copy").withWatermark("t", "5 minutes")
    counts = events.groupBy(F.window("t", "5 minutes").alias("w"), "k")
    counts = counts.agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    writer = counts.select(F.col("w.start").alias("start"), "k", "n", "s").writeStream.queryName("counts")
    writer = writer.option("checkpointLocation", f"{target}/_counts").trigger(availableNow=True)
    writer.start(f"{target}/counts", format="parquet").awaitTermination()
    spark.stop()


first()
second()
print("both sessions done")
