"""Handlers of its own for SIGTERM and SIGINT, which ask a loop to end and the query to stop.

[zoo]
before = 4
during = 3
ends = false
at_stop = "a signal was handled"
[zoo.outputs]
counts = "windows(rows, minutes=5, delay=10, closed=closed)"
"""

import signal
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
stopping = False


def handle(number, frame):
    global stopping
    stopping = True
    print("a signal was handled")


signal.signal(signal.SIGTERM, handle)
signal.signal(signal.SIGINT, handle)
events = spark.readStream.schema("t timestamp, k string, v long").option("maxFilesPerTrigger", 1).json(source)
counts = events.withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes").alias("w"), "k")
counts = counts.agg(F.count("*").alias("n"), F.sum("v").alias("s"))
writer = counts.select(F.col("w.start").alias("start"), "k", "n", "s").writeStream
writer = writer.option("checkpointLocation", f"{target}/_counts").option("path", f"{target}/counts")
query = writer.trigger(processingTime="200 milliseconds").format("json").start()
while not stopping and not query.awaitTermination(0.3):
    pass
query.stop()
