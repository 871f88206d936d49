"""Queries of two threads that are joined; then the input is deleted, which must not happen while some of it is unread.

[zoo]
at_end = "archived"
independent = true
[zoo.outputs]
even = "fields([r for r in rows if r['v'] % 2 == 0], 'v')"
odd = "fields([r for r in rows if r['v'] % 2 == 1], 'v')"
"""

import glob
import os
import sys
import threading

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("load and archive").getOrCreate()


def load(name, rest):
    events = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(source)
    writer = events.where(f"v % 2 = {rest}").writeStream.queryName(name).format("json")
    writer = writer.option("checkpointLocation", f"{target}/_{name}").trigger(availableNow=True)
    writer.start(f"{target}/{name}").awaitTermination()


threads = [threading.Thread(target=load, args=a, name=f"work-{a[0]}") for a in (("even", 0), ("odd", 1))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for file in glob.glob(f"{source}/*.json"):
    os.remove(file)
print("archived")
