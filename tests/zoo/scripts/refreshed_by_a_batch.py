"""A batch of one query stops another query and starts it again, as when new rules have come.

[zoo]
before = 6
during = 2
ends = false
[zoo.outputs]
live = "fields(rows, 'k', 'v')"
"""

import sys
import threading

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
lock = threading.Lock()


def start():
    events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
    writer = events.writeStream.queryName("live").option("checkpointLocation", f"{target}/_live")
    return writer.trigger(processingTime="200 milliseconds").start(f"{target}/live", format="json")


live = start()


def on_rules(frame, batch):
    global live
    frame.collect()
    live.stop()
    live = start()


rules = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
writer = rules.writeStream.queryName("rules").option("checkpointLocation", f"{target}/_rules")
writer.foreachBatch(on_rules).trigger(processingTime="4 seconds").start().awaitTermination()
