"""A query fails at a row of the fifth file, and nobody catches it.

[zoo]
exit = 1
raises = "pyspark.errors.exceptions.captured.StreamingQueryException: [STREAM_FAILED] Query [id = "
[zoo.outputs]
rows = "fields(below(rows, 80), 'v')"
[zoo.not]
drain = "its exit code depends on whether the drain comes before the row at which it fails"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()


def each_batch(frame, batch):
    if frame.where("v = 95").count():
        raise ValueError("cannot digest 95")
    frame.write.mode("overwrite").json(f"{target}/rows/batch={batch}")


events = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(source)
writer = events.writeStream.queryName("rows").foreachBatch(each_batch)
writer = writer.option("checkpointLocation", f"{target}/_rows").trigger(processingTime="200 milliseconds")
writer.start().awaitTermination()
print("not reached")
