"""Two queries that have nothing to do with each other: one fails, the other runs on to its end.

[zoo]
independent = true
[zoo.outputs]
good = "fields(rows, 'v')"
bad = "fields(below(rows, 40), 'v')"
"""

import sys
import time

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(source)


def fails(frame, batch):
    if frame.where("v = 45").count():
        raise RuntimeError("45 is too much")
    frame.write.mode("overwrite").json(f"{target}/bad/batch={batch}")


def slow(frame, batch):
    time.sleep(0.7)
    frame.write.mode("overwrite").json(f"{target}/good/batch={batch}")


def start(name, function):
    writer = (
        events.writeStream.queryName(name)
        .foreachBatch(function)
        .option("checkpointLocation", f"{target}/_{name}")
    )
    return writer.trigger(availableNow=True).start()


bad, good = start("bad", fails), start("good", slow)
good.awaitTermination()
print("good:", good.exception())
while bad.isActive:
    time.sleep(0.1)
print([query.name for query in spark.streams.active])
