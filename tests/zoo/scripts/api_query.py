"""What a StreamingQuery says of itself: id, runId, name, isActive, status, progress, exception, before and after stop().

[zoo]
to_its_end = "it asks questions, and has no output"
"""

import sys
import uuid

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)


def start():
    writer = (
        events.writeStream.format("noop").queryName("the query").option("checkpointLocation", f"{target}/_c")
    )
    return writer.start()


query = start()
print(isinstance(query, StreamingQuery), query.name, isinstance(query.id, str), isinstance(query.runId, str))
print(str(uuid.UUID(query.id)) == query.id, query.id != query.runId)
print(query.isActive, query.exception())
query.processAllAvailable()
print(query.isActive, query.exception(), sorted(query.status))
progress = query.lastProgress
print(progress["name"], progress["id"] == query.id, progress["runId"] == query.runId, progress.batchId)
print([(p.batchId, p.numInputRows) for p in query.recentProgress])
print(any(p == progress for p in query.recentProgress), progress.sink.description.split("$")[0])
print(progress["sources"][0]["description"].startswith("FileStreamSource"), sorted(progress["durationMs"]))
print(query.awaitTermination(1))
query.stop()
print(query.isActive, query.exception(), query.awaitTermination(), query.awaitTermination(5))
print(query.lastProgress.batchId, query.status["isTriggerActive"], query.status["message"])
query.stop()  # a second time

again = start()
print(again.id == query.id, again.runId == query.runId, again.name, again.isActive, query.isActive)
again.processAllAvailable()
again.stop()
print(again == query, [q.name for q in spark.streams.active])
