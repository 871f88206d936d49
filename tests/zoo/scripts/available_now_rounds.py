"""The same windowed query, availableNow, a fixed number of rounds in a loop; windows stay open from one round to the next.

[zoo]
before = 3
during = 3
at_end = "4 rounds"
[zoo.outputs]
counts = "windows(rows, minutes=5, delay=5, closed=closed)"
"""

import os
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
rounds = 0
while rounds < 4:
    if rounds == 3:
        while len([f for f in os.listdir(source) if f.endswith(".json") and not f.startswith(".")]) < 6:
            time.sleep(0.1)  # the last round is for all of the day
    events = spark.readStream.schema("t timestamp, k string, v long").json(source)
    counts = events.withWatermark("t", "5 minutes").groupBy(F.window("t", "5 minutes").alias("w"), "k")
    query = (
        counts.agg(F.count("*").alias("n"), F.sum("v").alias("s"))
        .select(F.col("w.start").alias("start"), "k", "n", "s")
        .writeStream.queryName("rounds")
        .format("parquet")
        .option("checkpointLocation", target + "/checkpoint")
        .trigger(availableNow=True)
        .start(target + "/counts")
    )
    query.awaitTermination()
    rounds += 1
print(rounds, "rounds")
