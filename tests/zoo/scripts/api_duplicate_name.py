"""A name that an active query has; the same after that one has stopped, or failed; a name of another session.

[zoo]
to_its_end = "it asks questions, and has no output"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").json(source)


def start(name, location):
    try:
        query = (
            events.writeStream.format("noop")
            .queryName(name)
            .option("checkpointLocation", f"{target}/{location}")
            .start()
        )
        print(name, location, "started", query.name)
        return query
    except Exception as e:
        print(name, location, type(e).__name__, str(e).splitlines()[0][:80])


first = start("name", "_1")
start("name", "_2")
print([query.name for query in spark.streams.active])
first.stop()
second = start("name", "_1")
print(second.id == first.id, second.runId == first.runId)
second.stop()
