"""The arguments of awaitTermination and awaitAnyTermination.

[zoo]
to_its_end = "it asks questions, and has no output"
"""

import sys
import time

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").json(source)
query = (
    events.writeStream.format("noop")
    .queryName("endless")
    .option("checkpointLocation", f"{target}/_c")
    .start()
)


def ask(wait, *arguments, **named):
    began = time.monotonic()
    try:
        answer = repr(wait(*arguments, **named))
    except Exception as e:
        answer = f"{type(e).__name__}: {e}"
    print(arguments, named, answer, int(time.monotonic() - began))


VALUES = ["hello", "1", 0, -1, 0.0, -0.5, [1], {}, 1, 1.6, 0.01, True, False]
for value in VALUES:
    ask(query.awaitTermination, value)
ask(query.awaitTermination, timeout=1)
ask(query.awaitTermination, 1, 2)
for value in VALUES:
    ask(spark.streams.awaitAnyTermination, value)
ask(spark.streams.awaitAnyTermination, timeout=1)
query.stop()
for value in None, 1, "hello", -1:
    ask(query.awaitTermination, value)
    ask(spark.streams.awaitAnyTermination, value)
