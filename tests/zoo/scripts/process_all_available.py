"""start, processAllAvailable, stop, and a report of what was written; twice.

[zoo]
[zoo.outputs]
events = "fields(rows, 'k', 'v')"
report = "totals(rows)"
[zoo.only]
report = ["plain", "runtime", "stops", "kills"]
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
for run in range(2):
    events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
    writer = events.writeStream.queryName("events").option("checkpointLocation", f"{target}/_checkpoint")
    query = writer.start(f"{target}/events", format="parquet")
    query.processAllAvailable()
    query.stop()
    written = spark.read.schema("k string, v long").parquet(f"{target}/events")
    report = written.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    report.coalesce(1).write.mode("overwrite").json(f"{target}/report")
    print("run", run, "done")
