"""A query fails, the script handles the exception and leaves with 0.

[zoo]
[zoo.outputs]
rows = "fields(below(rows, 80), 'v')"
"""

import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()


def each_batch(frame, batch):
    if frame.where("v = 95").count():
        raise ValueError("cannot digest 95")
    frame.write.mode("overwrite").json(f"{target}/rows/batch={batch}")


events = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(source)
writer = events.writeStream.queryName("rows").foreachBatch(each_batch)
query = (
    writer.option("checkpointLocation", f"{target}/_rows").trigger(processingTime="200 milliseconds").start()
)
try:
    query.awaitTermination()
except StreamingQueryException as e:
    print("handled:", "cannot digest 95" in str(e), query.isActive, query.exception() is not None)
sys.exit(0)
