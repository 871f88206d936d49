"""An exception ends the script after its query has ended.

[zoo]
exit = 1
raises = "ValueError: the totals do not add up"
[zoo.outputs]
copy = "fields(rows, 'k', 'v')"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
query = writer.trigger(availableNow=True).start(f"{target}/copy", format="json")
query.awaitTermination()
if spark.read.schema("v long").json(f"{target}/copy").count() != 0:
    raise ValueError("the totals do not add up")
