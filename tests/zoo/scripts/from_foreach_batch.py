"""The foreachBatch function of one query starts another one, at its first batch: refused.

[zoo]
refused = "QueryInForeachBatch"
before = 4
during = 2
ends = false
[zoo.outputs]
raw = "fields(rows, 'k', 'v')"
evens = "fields([r for r in rows if r['v'] % 2 == 0], 'k', 'v')"
[zoo.only]
raw = ["plain"]
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
started = {}


def each_batch(frame, batch):
    frame.write.mode("overwrite").json(f"{target}/raw/batch={batch}")
    if "evens" not in started:
        events = spark.readStream.schema("k string, v long").json(f"{target}/raw/*")
        writer = events.where("v % 2 = 0").writeStream.queryName("evens").option("path", f"{target}/evens")
        writer = writer.option("checkpointLocation", f"{target}/_evens").trigger(
            processingTime="300 milliseconds"
        )
        started["evens"] = writer.format("json").start()


events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
query = (
    events.writeStream.queryName("raw")
    .foreachBatch(each_batch)
    .option("checkpointLocation", f"{target}/_raw")
    .trigger(processingTime="300 milliseconds")
    .start()
)
query.awaitTermination()
