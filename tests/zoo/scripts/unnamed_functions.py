"""Queries without names and checkpoint locations, one after another: the second one is refused.

[zoo]
refused = "QueryNameMissing"
at_end = "archived and reported"
[zoo.only]
archive = ["plain"]
[zoo.outputs]
archive = "fields(rows, 'k', 'v')"
report = "fields([r for r in rows if r['k'] == 'k1'], 'k', 'v')"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").json(source)


def archive(frame, batch):
    frame.write.mode("overwrite").json(f"{target}/archive/batch={batch}")


def report(frame, batch):
    frame.where("k = 'k1'").write.mode("overwrite").json(f"{target}/report/batch={batch}")


for function in archive, report:
    events.writeStream.foreachBatch(function).trigger(availableNow=True).start().awaitTermination()
print("archived and reported")
