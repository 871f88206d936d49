"""A thread that is no daemon outlives the main one, and does the last work of the job.

[zoo]
[zoo.outputs]
copy = "fields(rows, 'k', 'v')"
summary = "totals(rows)"
"""

import sys
import threading
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
query = writer.trigger(availableNow=True).start(f"{target}/copy", format="parquet")


def summarize():
    query.awaitTermination()
    time.sleep(3)
    copied = spark.read.parquet(f"{target}/copy")
    summary = copied.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    summary.write.mode("overwrite").json(f"{target}/summary")
    print("summarized")


threading.Thread(target=summarize).start()
print("main is over")
