"""DataStreamWriter: arguments of trigger(), outputMode(), queryName(), start(), and what it refuses.

[zoo]
to_its_end = "it asks questions, and has no output"
"""

import sys

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").json(source)


def ask(what, call):
    try:
        answer = call()
        print(what, "a query" if isinstance(answer, StreamingQuery) else type(answer).__name__)
        return answer
    except Py4JJavaError as e:
        print(what, type(e).__name__, e.java_exception.getClass().getSimpleName())
    except Exception as e:
        print(what, type(e).__name__, str(e).splitlines()[0][:90].replace(target, "TARGET"))


ask("no trigger", lambda: events.writeStream.trigger())
ask("two triggers", lambda: events.writeStream.trigger(once=True, processingTime="5 seconds"))
ask("by position", lambda: events.writeStream.trigger("5 seconds"))
ask("once=False", lambda: events.writeStream.trigger(once=False))
ask("availableNow=1", lambda: events.writeStream.trigger(availableNow=1))
ask("processingTime=5", lambda: events.writeStream.trigger(processingTime=5))
ask("processingTime=''", lambda: events.writeStream.trigger(processingTime=" "))
ask("nonsense", lambda: events.writeStream.trigger(processingTime="now and then"))
ask("mode", lambda: events.writeStream.outputMode("sometimes"))
ask("mode 1", lambda: events.writeStream.outputMode(1))
ask("name 1", lambda: events.writeStream.queryName(1))
ask("name ''", lambda: events.writeStream.queryName(""))
ask(
    "no path",
    lambda: events.writeStream.format("parquet").option("checkpointLocation", f"{target}/_a").start(),
)
ask("complete", lambda: events.writeStream.format("noop").outputMode("complete").start())
ask(
    "no such format",
    lambda: events.writeStream.format("nowhere").option("checkpointLocation", f"{target}/_b").start(),
)
ask(
    "both paths", lambda: events.writeStream.option("path", f"{target}/x").start(f"{target}/y", format="json")
)
ask("foreachBatch(1)", lambda: events.writeStream.foreachBatch(1))
ask("foreach(object())", lambda: events.writeStream.foreach(object()))
print(spark.streams.active)
query = ask(
    "all at start",
    lambda: events.writeStream.queryName("another").start(
        path=f"{target}/out",
        format="parquet",
        queryName="this",
        checkpointLocation=f"{target}/_out",
        outputMode="append",
    ),
)
print(query.name, [q.name for q in spark.streams.active])
query.processAllAvailable()
query.stop()
print(spark.read.parquet(f"{target}/out").count())
once = events.writeStream.trigger(once=True).option("checkpointLocation", f"{target}/_out")
once = once.start(f"{target}/out", format="parquet", queryName="this")
print(once.id == query.id, once.awaitTermination(), once.isActive)
print(spark.read.parquet(f"{target}/out").count())
