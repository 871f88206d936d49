"""spark.newSession(): two sessions with temporary views of the same name and settings of their own, a query in each.

[zoo]
independent = true
[zoo.outputs]
odd = "fields([r for r in rows if r['v'] % 2], 'k', 'v')"
even = "totals([r for r in rows if r['v'] % 2 == 0])"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("sessions").getOrCreate()
other = spark.newSession()
other.conf.set("spark.sql.shuffle.partitions", "3")
for session, remainder in (spark, 1), (other, 0):
    events = session.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
    events.where(f"v % 2 = {remainder}").createOrReplaceTempView("events")


def overwrite(frame, batch):
    frame.write.mode("overwrite").json(f"{target}/even")


odd = spark.sql("select k, v from events").writeStream.queryName("odd")
odd = odd.option("checkpointLocation", f"{target}/_odd").trigger(availableNow=True)
first = odd.start(f"{target}/odd", format="parquet")
even = other.sql("select k, count(*) as n, sum(v) as s from events group by k").writeStream.queryName("even")
even = even.option("checkpointLocation", f"{target}/_even").trigger(availableNow=True)
second = even.outputMode("complete").foreachBatch(overwrite).start()
first.awaitTermination()
second.awaitTermination()
print(spark.conf.get("spark.sql.shuffle.partitions"), other.conf.get("spark.sql.shuffle.partitions"))
print(spark.streams.active, other.streams.active)
