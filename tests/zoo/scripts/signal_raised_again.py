"""A service that takes a while to shut down at a signal, and then raises the signal again, as web servers do: it
is one request to stop, not a second one that cancels.

[zoo]
before = 4
during = 3
ends = false
at_stop = "shutting down"
[zoo.outputs]
copy = "fields(rows, 'k', 'v')"
"""

import asyncio
import signal
import sys
import time

from pyspark.sql import SparkSession

source, target = sys.argv[1:3]
spark = SparkSession.builder.getOrCreate()
received = []


def write(batch, number):
    time.sleep(1)
    batch.write.mode("overwrite").json(f"{target}/copy/batch={number}")


async def serve():
    stop = asyncio.Event()

    def handle(number):
        received.append(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, handle, number)
    await stop.wait()
    print("shutting down")
    await asyncio.sleep(0.5)


events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
writer.foreachBatch(write).start()
asyncio.run(serve())
for number in received:
    signal.raise_signal(number)
spark.streams.awaitAnyTermination()
