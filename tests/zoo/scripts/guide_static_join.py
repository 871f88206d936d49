"""Spark's programming guide: a stream joined with a static table, inner and left outer.

[zoo]
independent = true
[zoo.outputs]
inner = "[{'v': r['v'], 'city': {'k0': 'Oslo', 'k1': 'Bonn'}[r['k']]} for r in rows if r['k'] in ('k0', 'k1')]"
left = "[{'v': r['v'], 'city': {'k0': 'Oslo', 'k1': 'Bonn'}.get(r['k'])} for r in rows]"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
staticDf = spark.createDataFrame([("k0", "Oslo"), ("k1", "Bonn")], "k string, city string")
streamingDf = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 2).json(source)


def write(frame, name):
    writer = (
        frame.select("v", "city")
        .writeStream.queryName(name)
        .option("checkpointLocation", f"{target}/_{name}")
    )
    return writer.trigger(availableNow=True).start(f"{target}/{name}", format="json")


queries = [
    write(streamingDf.join(staticDf, "k"), "inner"),  # inner equi-join with a static DF
    write(streamingDf.join(staticDf, "k", "left_outer"), "left"),  # left outer join with a static DF
]
for query in queries:
    query.awaitTermination()
print([query.name for query in queries])
