"""A listener that keeps statistics of its queries and writes them down when they terminate.

[zoo]
at_end = "listener removed"
[zoo.outputs]
events = "fields(rows, 'k', 'v')"
"statistics.txt" = "['rows 132', 'terminated without error']"
[zoo.only]
"statistics.txt" = ["plain", "runtime"]
"""

import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("statistics").getOrCreate()


class Statistics(StreamingQueryListener):
    rows = 0
    started = 0
    terminated = False

    def onQueryStarted(self, event):
        self.started += 1

    def onQueryProgress(self, event):
        self.rows += event.progress.numInputRows

    def onQueryTerminated(self, event):
        with open(f"{target}/statistics.txt", "w") as file:
            file.write(f"rows {self.rows}\n")
            file.write(f"terminated {'with' if event.exception else 'without'} error\n")
        self.terminated = True


statistics = Statistics()
spark.streams.addListener(statistics)
events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
writer = events.writeStream.queryName("events").option("checkpointLocation", f"{target}/_checkpoint")
query = writer.trigger(availableNow=True).start(f"{target}/events", format="json")
query.awaitTermination()
while not statistics.terminated:
    time.sleep(0.1)
spark.streams.removeListener(statistics)
print("started", statistics.started)
print("listener removed")
