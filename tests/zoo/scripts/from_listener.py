"""A listener starts the second query when the first one has terminated.

[zoo]
at_end = "both done"
[zoo.outputs]
copy = "fields(rows, 'k', 'v')"
sums = "totals(rows)"
"""

import sys
import threading

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryListener

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("chained by a listener").getOrCreate()
finished = threading.Event()


def write_sums(frame, batch):
    frame.write.mode("overwrite").json(f"{target}/sums")


def start_sums():
    copied = spark.readStream.schema("k string, v long").parquet(f"{target}/copy")
    sums = copied.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    writer = sums.writeStream.queryName("sums").outputMode("complete").foreachBatch(write_sums)
    writer.option("checkpointLocation", f"{target}/_sums").trigger(availableNow=True).start()


class Chain(StreamingQueryListener):
    first = None

    def onQueryStarted(self, event):
        if event.name == "copy":
            self.first = event.runId

    def onQueryProgress(self, event):
        pass

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        if event.runId == self.first:
            start_sums()
        else:
            finished.set()


spark.streams.addListener(Chain())
events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 2).json(source)
writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
writer.trigger(availableNow=True).start(f"{target}/copy", format="parquet")
finished.wait()
print("both done")
