"""Two queries write to one folder, each with a name and a checkpoint of its own: refused, because plain Spark
drops the batches of the second one in silence.

[zoo]
before = 4
refused = "SinkShared"
compare_stdout = false
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("t TIMESTAMP, k STRING, v LONG").json(source)
for name, chosen in (("even", "v % 2 = 0"), ("odd", "v % 2 = 1")):
    writer = rows.where(chosen).writeStream.queryName(name).format("json").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", f"{target}/checkpoints/{name}")
    writer.start(f"{target}/out").awaitTermination()
