"""Spark's programming guide: windows of ten minutes that slide every five, in update mode; each batch replaces what it changes.

[zoo]
before = 4
during = 4
ends = false
[zoo.outputs]
counts = "windows(rows, minutes=10, slide=5, delay=10, closed=False, key='')"
"""

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()


def upsert(frame, batch):
    os.makedirs(f"{target}/counts", exist_ok=True)
    for row in frame.collect():
        file = f"{target}/counts/part-{row.start:%H%M}.json"
        with open(f"{target}/new", "w") as new:
            new.write(json.dumps({"start": f"{row.start:%Y-%m-%dT%H:%M:%S}", "n": row.n, "s": row.s}) + "\n")
        os.rename(f"{target}/new", file)


events = spark.readStream.schema("t timestamp, v long").option("maxFilesPerTrigger", 1).json(source)
counts = (
    events.withWatermark("t", "10 minutes")
    .groupBy(F.window("t", "10 minutes", "5 minutes"))
    .agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    .select("window.start", "n", "s")
)
query = (
    counts.writeStream.outputMode("update")
    .queryName("counts")
    .foreachBatch(upsert)
    .option("checkpointLocation", f"{target}/_checkpoint")
    .start()
)
query.awaitTermination()
