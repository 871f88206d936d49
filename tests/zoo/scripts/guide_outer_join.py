"""Spark's programming guide: impressions left outer join clicks within a time range; what has no click comes out late.

[zoo]
before = 4
during = 4
ends = false
[zoo.outputs]
joined = "clicks_of_views(rows, minutes=3, delay=5, closed=closed)"
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import expr

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("impressions and clicks").getOrCreate()


def events(kind):
    schema = "t timestamp, v long, kind string, ref long"
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(source)
    return rows.where(f"kind = '{kind}'")


impressions = events("view").selectExpr("v as impressionAdId", "t as impressionTime")
clicks = events("click").selectExpr("ref as clickAdId", "t as clickTime", "v as click")
impressionsWithWatermark = impressions.withWatermark("impressionTime", "5 minutes")
clicksWithWatermark = clicks.withWatermark("clickTime", "5 minutes")
joined = impressionsWithWatermark.join(
    clicksWithWatermark,
    expr("""
      clickAdId = impressionAdId AND
      clickTime >= impressionTime - interval 500 milliseconds AND
      clickTime <= impressionTime + interval 3 minutes 500 milliseconds
    """),
    "leftOuter",
)
query = (
    joined.select("impressionAdId", "click")
    .writeStream.queryName("joined")
    .format("json")
    .option("path", f"{target}/joined")
    .option("checkpointLocation", f"{target}/_joined")
    .trigger(processingTime="200 milliseconds")
    .start()
)
query.awaitTermination()
