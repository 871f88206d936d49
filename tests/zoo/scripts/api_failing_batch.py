"""A foreachBatch function that raises: what isActive, exception(), awaitTermination, processAllAvailable and stop() do then.

[zoo]
to_its_end = "it asks questions, and has no output"
"""

import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").json(source)


class OutOfPaper(Exception):
    pass


def fails(frame, batch):
    raise OutOfPaper(f"in batch {batch}")


def ask(what, call):
    try:
        print(what, call())
    except StreamingQueryException as e:
        print(what, "raised", type(e).__name__, "OutOfPaper: in batch 0" in str(e), e.getCondition())


writer = (
    events.writeStream.foreachBatch(fails).queryName("fails").option("checkpointLocation", f"{target}/_fails")
)
for run in range(2):
    query = writer.start()
    ask("processAllAvailable", query.processAllAvailable)
    ask("awaitTermination", query.awaitTermination)
    ask("awaitTermination(1)", lambda query=query: query.awaitTermination(1))
    error = query.exception()
    print(type(error).__name__, isinstance(error, StreamingQueryException), "OutOfPaper" in str(error))
    print(query.isActive, query.name, query.status["message"].split("\n")[0][:22], spark.streams.active)
    ask("stop", query.stop)
    ask("awaitTermination", query.awaitTermination)
    ask("any", lambda: spark.streams.awaitAnyTermination(1))
    spark.streams.resetTerminated()
sys.exit(0)
