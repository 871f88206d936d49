"""What has been read is deleted by Spark itself (`cleanSource`).

[zoo]
before = 4
during = 3
ends = false
[zoo.outputs]
copy = "fields(rows, 'k', 'v')"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
reader = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1)
events = reader.option("cleanSource", "delete").json(source)
writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
writer = writer.trigger(processingTime="200 milliseconds").option("path", f"{target}/copy")
writer.format("json").start()
spark.streams.awaitAnyTermination()
