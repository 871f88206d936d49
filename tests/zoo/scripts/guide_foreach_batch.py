"""Spark's programming guide: foreachBatch with persist, and several sinks.

[zoo]
before = 4
during = 4
ends = false
[zoo.outputs]
rows = "fields(rows, 'k', 'v')"
sums = "totals(rows)"
appended = "fields(rows, 'v')"
[zoo.repeats]
appended = "an append is not idempotent, and a crash comes between it and the commit"
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()


def each_batch(batch_df, batch_id):
    batch_df.persist()
    batch_df.select("k", "v").write.mode("overwrite").json(f"{target}/rows/batch={batch_id}")
    batch_df.select("v").write.mode("append").parquet(f"{target}/appended")
    written = spark.read.schema("k string, v long").json(f"{target}/rows/*")
    sums = written.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))
    sums.coalesce(1).write.mode("overwrite").json(f"{target}/sums")
    batch_df.unpersist()


streamingDF = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
writer = streamingDF.writeStream.foreachBatch(each_batch).option(
    "checkpointLocation", f"{target}/_checkpoint"
)
writer.trigger(processingTime="200 milliseconds").start().awaitTermination()
