"""spark.streams.get(id).stop(), from another thread, as an administration endpoint does it. The windows stay open.

[zoo]
at_end = "stopped by its id"
[zoo.outputs]
counts = "windows(rows, minutes=5, delay=10, closed=True)"
[zoo.not]
drain = "the windows of a query that is stopped stay open, and a drain is there to close them"
stops = "what the watermark has closed Spark emits with the next batch, and after a restart there may be none"
kills = "what the watermark has closed Spark emits with the next batch, and after a restart there may be none"
"""

import sys
import threading
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("t timestamp, k string, v long").option("maxFilesPerTrigger", 2).json(source)
counts = events.withWatermark("t", "10 minutes").groupBy(F.window("t", "5 minutes").alias("w"), "k")
query = (
    counts.agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    .select(F.col("w.start").alias("start"), "k", "n", "s")
    .writeStream.queryName("counts")
    .format("json")
    .option("checkpointLocation", f"{target}/checkpoint")
    .start(f"{target}/counts")
)


def administer(id):
    query.processAllAvailable()
    time.sleep(0.5)
    spark.streams.get(id).stop()


threading.Thread(target=administer, args=(query.id,)).start()
query.awaitTermination()
print("stopped by its id")
