"""A copied line: two queries, one after the other, have one checkpointLocation. Refused, because plain Spark
continues the second one behind all that the first one has read, and it writes nothing.

[zoo]
before = 4
refused = "QueryChanged"
compare_stdout = false
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("t TIMESTAMP, k STRING, v LONG").json(source)
for name, chosen in (("even", "v % 2 = 0"), ("odd", "v % 2 = 1")):
    writer = rows.where(chosen).writeStream.queryName(name).format("json").trigger(availableNow=True)
    writer.option("checkpointLocation", f"{target}/checkpoint").start(f"{target}/{name}").awaitTermination()
