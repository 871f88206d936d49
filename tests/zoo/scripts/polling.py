"""A loop that polls isActive, lastProgress and awaitTermination with a timeout, and stops the query when it has seen enough.

[zoo]
before = 3
during = 3
[zoo.outputs]
events = "fields(rows, 'k', 'v')"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
query = (
    events.writeStream.format("json")
    .option("path", f"{target}/events")
    .option("checkpointLocation", f"{target}/_checkpoint")
    .trigger(processingTime="200 milliseconds")
    .start()
)
while query.isActive:
    if query.awaitTermination(0.5):
        break
    if query.lastProgress is None:
        continue
    if spark.read.schema("v long").json(f"{target}/events").count() == 132:
        query.stop()
print("active:", query.isActive)
print("exception:", query.exception())
