"""A stage that works off a part of the input (availableNow), and a live one that joins what that has written with the clicks.

[zoo]
before = 5
during = 3
ends = false
independent = true
[zoo.outputs]
reference = "fields([r for r in rows if r['v'] < 20], 'k', 'v')"
joined = "clicks_by_key(rows, 20)"
[zoo.not]
drain = "the answer is not that of some first files: the live stage may have read more than the other one"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long, kind string").option("maxFilesPerTrigger", 1).json(source)

reference = events.where("v < 20").select("k", "v").writeStream.queryName("reference")
reference = reference.option("checkpointLocation", f"{target}/_reference").trigger(availableNow=True)
reference.start(f"{target}/reference", format="parquet").awaitTermination()

known = spark.readStream.schema("k string, v long").parquet(f"{target}/reference")
clicks = events.where("kind = 'click'").selectExpr("k", "v as click")
joined = known.join(clicks, "k").writeStream.queryName("joined").option("path", f"{target}/joined")
joined = joined.option("checkpointLocation", f"{target}/_joined").trigger(processingTime="200 milliseconds")
joined.format("json").start().awaitTermination()
