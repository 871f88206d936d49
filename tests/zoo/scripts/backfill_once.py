"""A backfill that runs once, as a file notes, and a live query after it in each start.

[zoo]
before = 4
during = 2
ends = false
independent = true
[zoo.outputs]
live = "fields([r for r in rows if r['v'] % 2 == 0], 'k', 'v')"
"""

import os
import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)


def writer(name, rows):
    return rows.writeStream.queryName(name).option("checkpointLocation", f"{target}/_{name}").format("json")


done = f"{target}/backfilled"
if not os.path.exists(done):
    history = writer("history", events.where("v % 2 = 1")).trigger(availableNow=True)
    history.start(f"{target}/history").awaitTermination()
    open(done, "w").close()
live = writer("live", events.where("v % 2 = 0")).trigger(processingTime="300 milliseconds")
live.start(f"{target}/live").awaitTermination()
