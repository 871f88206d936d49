"""Spark's programming guide: deduplication with a watermark.

[zoo]
before = 4
during = 3
ends = false
[zoo.outputs]
distinct = "fields(distinct(rows, 'v', 't'), 'v', 't')"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
streamingDf = spark.readStream.schema("v long, t timestamp").option("maxFilesPerTrigger", 1).json(source)
distinct = streamingDf.withWatermark("t", "10 minutes").dropDuplicates(["v", "t"])
writer = distinct.writeStream.format("parquet").option("path", f"{target}/distinct")
writer.option("checkpointLocation", f"{target}/_distinct").start().awaitTermination()
