"""awaitAnyTermination with resetTerminated over three queries that end one after another.

[zoo]
at_end = "all three have ended"
independent = true
[zoo.outputs]
first = "fields(rows, 'v')"
second = "fields(rows, 'k', 'v')"
third = "windows(rows, minutes=10, delay=5, closed=closed)"
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("three").getOrCreate()


def events(files):
    schema = "t timestamp, k string, v long"
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files).json(source)


def start(frame, name):
    writer = frame.writeStream.queryName(name).format("parquet").option("path", f"{target}/{name}")
    return writer.option("checkpointLocation", f"{target}/_{name}").trigger(availableNow=True).start()


start(events(6).select("v"), "first")
start(events(2).select("k", "v"), "second")
counts = events(1).withWatermark("t", "5 minutes").groupBy(F.window("t", "10 minutes").alias("w"), "k")
start(
    counts.agg(F.count("*").alias("n"), F.sum("v").alias("s")).select(
        F.col("w.start").alias("start"), "k", "n", "s"
    ),
    "third",
)
returns = 0
while spark.streams.active:
    spark.streams.awaitAnyTermination()
    spark.streams.resetTerminated()
    returns += 1
print("it returned more than three times:", returns > 3)
print("all three have ended")
