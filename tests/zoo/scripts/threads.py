"""Queries that are started and awaited in threads of their own, one for each key.

[zoo]
at_end = "threads joined"
independent = true
[zoo.outputs]
k0 = "[{'v': r['v']} for r in rows if r['k'] == 'k0']"
k1 = "[{'v': r['v']} for r in rows if r['k'] == 'k1']"
k2 = "[{'v': r['v']} for r in rows if r['k'] == 'k2']"
"""

import sys
import threading

from pyspark.sql import SparkSession
from pyspark.sql.functions import col

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("threads").getOrCreate()


def run(key):
    events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 2).json(source)
    query = (
        events.where(col("k") == key)
        .select("v")
        .writeStream.queryName(key)
        .format("json")
        .option("checkpointLocation", f"{target}/_checkpoints/{key}")
        .trigger(availableNow=True)
        .start(f"{target}/{key}")
    )
    query.awaitTermination()


threads = [threading.Thread(target=run, args=(f"k{n}",)) for n in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("threads joined")
