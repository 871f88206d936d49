"""The rate source, until a hundred values are written.

[zoo]
before = 0
compare_stdout = false
[zoo.outputs]
values = "[{'value': n} for n in range(100)]"
[zoo.not]
drain = "its input is a clock: a drain may come before a hundred values are there"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
rate = spark.readStream.format("rate").option("rowsPerSecond", 20).load()
writer = rate.where("value < 100").select("value").writeStream.queryName("values")
writer = writer.option("checkpointLocation", f"{target}/_values").trigger(processingTime="300 milliseconds")
query = writer.start(f"{target}/values", format="json")
while not query.awaitTermination(0.5):
    if query.lastProgress and spark.read.schema("value long").json(f"{target}/values").count() >= 100:
        query.stop()
