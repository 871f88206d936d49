"""A forked process beside the query, which tells what it has counted through a queue.

[zoo]
[zoo.outputs]
copy = "fields(rows, 'v')"
"""

import multiprocessing
import sys
import time

from pyspark.sql import SparkSession


def heartbeat(queue):
    for n in range(3):
        time.sleep(0.5)
        queue.put(n)


if __name__ == "__main__":
    source, target = sys.argv[1], sys.argv[2]
    fork = multiprocessing.get_context("fork")
    queue = fork.Queue()
    beside = fork.Process(target=heartbeat, args=(queue,))
    beside.start()
    spark = SparkSession.builder.getOrCreate()
    events = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(source)
    writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
    writer.trigger(availableNow=True).start(f"{target}/copy", format="json").awaitTermination()
    beside.join()
    print([queue.get() for _ in range(3)], beside.exitcode)
