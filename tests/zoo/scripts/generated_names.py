"""Names that are generated anew at each start, with fixed checkpoint locations.

[zoo]
independent = true
[zoo.outputs]
odd = "fields([r for r in rows if r['v'] % 2], 'v')"
even = "fields([r for r in rows if r['v'] % 2 == 0], 'v')"
[zoo.not]
stops = "the next start has none of the names of the one before: refused, or it would go on without their state"
kills = "the next start has none of the names of the one before: refused, or it would go on without their state"
"""

import sys
import uuid

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(source)
queries = []
for remainder, name in (1, "odd"), (0, "even"):
    writer = events.where(f"v % 2 = {remainder}").writeStream.queryName(f"{name}-{uuid.uuid4()}")
    writer = writer.option("checkpointLocation", f"{target}/_{name}").trigger(availableNow=True)
    queries.append(writer.start(f"{target}/{name}", format="json"))
for query in queries:
    query.awaitTermination()
    print(query.name.split("-")[0])
