"""A process beside each batch, forked and terminated by its parent; at the end an exit code.

[zoo]
exit = 3
at_end = "six batches"
[zoo.outputs]
copy = "fields(rows, 'v')"
"""

import multiprocessing
import sys
import time

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("watched").getOrCreate()
events = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(source)


def heartbeat():
    while True:
        time.sleep(1)


def write(frame, batch):
    watchdog = multiprocessing.get_context("fork").Process(target=heartbeat)
    watchdog.start()
    frame.write.mode("overwrite").json(f"{target}/copy/{batch}")
    watchdog.terminate()
    watchdog.join()
    assert watchdog.exitcode == -15, watchdog.exitcode


writer = events.writeStream.queryName("copy").foreachBatch(write)
query = writer.option("checkpointLocation", f"{target}/_copy").trigger(availableNow=True).start()
query.awaitTermination()
print("six batches")
sys.exit(3)
