"""A minute of work after the last query has ended: it belongs to the job.

[zoo]
before = 2
at_end = "a long tail"
[zoo.outputs]
copy = "fields(rows, 'v')"
"tail.txt" = "['step 0', 'step 1', 'step 2', 'step 3', 'step 4', 'step 5', 'step 6']"
[zoo.not]
stops = "it would take minutes, and batch_work shows the same"
kills = "it would take minutes, and batch_work shows the same"
drain = "it would take minutes, and batch_work shows the same"
"""

import sys
import time

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("v long").json(source)
writer = events.writeStream.option("checkpointLocation", f"{target}/_copy").trigger(availableNow=True)
writer.start(f"{target}/copy", format="json").awaitTermination()
with open(f"{target}/tail.txt", "w") as file:
    for step in range(7):
        time.sleep(10)
        print(f"step {step}", file=file)
print("a long tail")
