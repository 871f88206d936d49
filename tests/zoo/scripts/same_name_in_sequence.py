"""The same name for one query after another, each with a checkpoint location of its own.

[zoo]
at_end = "three of one name"
independent = true
[zoo.outputs]
k0 = "[{'v': r['v']} for r in rows if r['k'] == 'k0']"
k1 = "[{'v': r['v']} for r in rows if r['k'] == 'k1']"
k2 = "[{'v': r['v']} for r in rows if r['k'] == 'k2']"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
names = []
for key in "k0", "k1", "k2":
    events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 2).json(source)
    writer = (
        events.where(f"k = '{key}'")
        .select("v")
        .writeStream.queryName("load")
        .option("checkpointLocation", f"{target}/_{key}")
    )
    query = writer.trigger(availableNow=True).start(f"{target}/{key}", format="json")
    query.awaitTermination()
    names.append(query.name)
print(names)
print("three of one name")
