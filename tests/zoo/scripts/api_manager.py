"""StreamingQueryManager: active, get of known, unknown, ended and ill-formed ids; it is one object.

[zoo]
to_its_end = "it asks questions, and has no output"
"""

import sys
import uuid

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").json(source)
streams = spark.streams
print(streams is spark.streams, streams == spark.streams, streams.active)


def start(name):
    return (
        events.writeStream.format("noop")
        .queryName(name)
        .option("checkpointLocation", f"{target}/_{name}")
        .start()
    )


def names():
    return sorted(query.name for query in streams.active)


def get(id):
    try:
        found = streams.get(id)
        return found and (found.name, found.id == id, found.isActive)
    except Exception as e:
        return type(e).__name__, str(e).splitlines()[0][:60]


a, b = start("a"), start("b")
print(names(), get(a.id), get(b.id))
print(get(str(uuid.UUID(int=7))), get("no id"), get(a.runId))
b.processAllAvailable()
by_id = streams.get(b.id)
print(by_id.lastProgress.numInputRows == b.lastProgress.numInputRows, by_id.runId == b.runId)
a.stop()
print(names(), get(a.id), streams.get(b.id).name)
streams.get(b.id).stop()
print(names(), get(b.id), b.isActive, by_id.isActive, b.exception())
c = start("a")
print(names(), c.id == a.id)
for query in streams.active:
    query.stop()
print(names())
