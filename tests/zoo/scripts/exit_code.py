"""sys.exit(3) at the end.

[zoo]
exit = 3
at_end = "leaving with 3"
[zoo.outputs]
copy = "fields(rows, 'k', 'v')"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
writer.trigger(availableNow=True).start(f"{target}/copy", format="json").awaitTermination()
print("leaving with 3")
sys.exit(3)
