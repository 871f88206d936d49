"""A worker thread ingests, and the main thread waits for an event of it, then archives what was read.

[zoo]
at_end = "archived"
[zoo.outputs]
ingested = "fields(rows, 'k', 'v')"
"archived.txt" = "['archived']"
[zoo.only]
"archived.txt" = ["plain", "runtime", "stops", "kills"]
"""

import sys
import threading

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
done = threading.Event()


def ingest():
    try:
        events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
        writer = events.writeStream.queryName("ingest").option("checkpointLocation", f"{target}/_ingest")
        writer.trigger(availableNow=True).start(f"{target}/ingested", format="json").awaitTermination()
    finally:
        done.set()


threading.Thread(target=ingest).start()
done.wait()
with open(f"{target}/archived.txt", "w") as file:
    file.write("archived\n")
print("archived")
