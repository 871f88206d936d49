"""A static table is read again every now and then: the query is stopped and started in the same driver, with the same checkpoint.

[zoo]
before = 2
during = 6
compare_stdout = true
[zoo.outputs]
enriched = "[{'v': r['v'], 'k': r['k'], 'label': 'label of ' + r['k']} for r in rows]"
"""

import sys
import time

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
ROWS = 176  # in all of the input
spark = SparkSession.builder.appName("hourly refresh").getOrCreate()


def start():
    labels = spark.createDataFrame([(f"k{n}", f"label of k{n}") for n in range(4)], "k string, label string")
    events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
    return (
        events.join(labels, "k")
        .writeStream.queryName("enriched")
        .option("checkpointLocation", f"{target}/checkpoint")
        .trigger(processingTime="200 milliseconds")
        .start(f"{target}/enriched", format="json")
    )


def written():
    try:
        return spark.read.schema("v long").json(f"{target}/enriched").count()
    except Exception:  # nothing there yet
        return 0


query = start()
while written() < ROWS:
    time.sleep(2)  # an hour
    query.stop()
    query = start()
query.stop()
print("refreshed enough")
