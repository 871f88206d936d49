"""The console sink: its batches are on standard output.

[zoo]
before = 3
to_its_end = "its output is what stands on the terminal"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
writer = events.where("v % 4 = 0").writeStream.format("console").option("truncate", "false")
writer.trigger(availableNow=True).start().awaitTermination()
print("that was all")
