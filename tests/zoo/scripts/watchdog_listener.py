"""A listener that ends the process a moment after a query has ended, so that whatever supervises it starts it
again: a stop has its savepoint, and a drain its windows, before the listener hears of the end.

[zoo]
before = 4
during = 3
ends = false
[zoo.outputs]
counts = "windows(rows, minutes=5, delay=10, closed=closed)"
"""

import os
import sys
import threading

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

source, target = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()


class Watchdog(StreamingQueryListener):
    def onQueryStarted(self, event):
        pass

    def onQueryProgress(self, event):
        pass

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        threading.Timer(1, os._exit, [1]).start()


spark.streams.addListener(Watchdog())
events = spark.readStream.schema("t timestamp, k string, v long").option("maxFilesPerTrigger", 1).json(source)
counts = events.withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes").alias("w"), "k")
counts = counts.agg(F.count("*").alias("n"), F.sum("v").alias("s"))
writer = counts.select(F.col("w.start").alias("start"), "k", "n", "s").writeStream.queryName("counts")
writer = writer.option("checkpointLocation", f"{target}/_counts").option("path", f"{target}/counts")
writer.trigger(processingTime="200 milliseconds").format("json").start()
spark.streams.awaitAnyTermination()
