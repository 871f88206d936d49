"""awaitAnyTermination and resetTerminated: what has ended is remembered until it is reset, failures too.

[zoo]
to_its_end = "it asks questions, and has no output"
"""

import sys

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").json(source)
streams = spark.streams


def start(name, function=lambda frame, batch: None):
    writer = events.writeStream.foreachBatch(function).queryName(name)
    return writer.option("checkpointLocation", f"{target}/_{name}").start()


def wait(what, *timeout):
    try:
        print(what, streams.awaitAnyTermination(*timeout))
    except StreamingQueryException as e:
        print(what, "raised", type(e).__name__, "out of order" in str(e))


def fails(frame, batch):
    raise ValueError("out of order")


wait("nothing has run:", 1)
a, b = start("a"), start("b")
wait("two run:", 1)
a.stop()
wait("one has stopped:", 2)
wait("without a timeout:")
wait("again:", 2)
streams.resetTerminated()
wait("after reset:", 1)
b.stop()
wait("the other has stopped:")
streams.resetTerminated()
wait("none runs, reset:", 1)
c, d = start("c"), start("d", fails)
wait("one fails:")
wait("again:", 1)
streams.resetTerminated()
wait("after reset:", 1)
print(c.isActive, d.isActive, d.exception() is not None)
c.stop()
wait("the good one has stopped:", 1)
