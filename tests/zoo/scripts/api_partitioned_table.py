"""partitionBy, toTable into a managed table, a stream from a table, a temporary view of a stream.

[zoo]
to_its_end = "it asks questions; its tables are gone with the process"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").json(source)
events.createOrReplaceTempView("events")
view = spark.sql("select upper(k) as k, v from events where v < 50")
print(view.isStreaming)

writer = view.writeStream.partitionBy("k").option("checkpointLocation", f"{target}/_first").queryName("first")
first = writer.toTable("first", format="parquet")
print(first.name, first.isActive)
first.processAllAvailable()
first.stop()
print(spark.sql("select k, count(*) as n from first group by k order by k").collect())

table = spark.readStream.table("first")
print(table.isStreaming)
second = table.writeStream.format("memory").queryName("second").start()
second.processAllAvailable()
print(spark.table("second").count(), spark.table("first").count())
second.stop()
print(spark.streams.active)
