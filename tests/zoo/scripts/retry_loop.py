"""`while True: try: start, await; except StreamingQueryException: start again`, with a foreachBatch function that fails at first.

[zoo]
at_end = ""
[zoo.outputs]
rows = "fields(rows, 'k', 'v')"
"""

import sys
import time

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("retry").getOrCreate()
failures = 0


def write_batch(frame, batch):
    if failures < 2 and batch == failures + 1:
        raise ConnectionError("the database is away")
    frame.write.mode("overwrite").json(f"{target}/rows/batch={batch}")


while True:
    events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
    try:
        query = (
            events.writeStream.queryName("load")
            .foreachBatch(write_batch)
            .option("checkpointLocation", f"{target}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        break
    except StreamingQueryException as e:
        failures += 1
        print("failed:", "the database is away" in str(e))
        time.sleep(0.2)
print("done after", failures, "failures")
