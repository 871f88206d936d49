"""The memory sink, append and complete, queried while the queries run, and its second start under the same name.

[zoo]
[zoo.outputs]
appended = "fields(rows, 'k', 'v')"
counts = "totals(rows)"
[zoo.only]
appended = ["plain", "runtime", "stops", "kills"]
counts = ["plain", "runtime", "stops", "kills"]
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 2).json(source)
sums = events.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))
for run in range(2):
    appended = events.writeStream.format("memory").queryName("appended").start()
    counts = sums.writeStream.format("memory").queryName("counts").outputMode("complete").start()
    for query in appended, counts:
        query.processAllAvailable()
    spark.table("appended").write.mode("overwrite").json(f"{target}/appended")
    spark.sql("select * from counts").write.mode("overwrite").json(f"{target}/counts")
    for query in appended, counts:
        query.stop()
    print(run, sorted(query.name for query in spark.streams.active))
