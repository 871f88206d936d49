"""The events of a StreamingQueryListener, in their order: of a query that is stopped, one that ends, one that fails; after removal none.

[zoo]
before = 3
to_its_end = "it asks questions, and has no output"
"""

import sys
import time
import uuid

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
told = []


class Listener(StreamingQueryListener):
    def onQueryStarted(self, event):
        told.append(
            ("started", event.name, isinstance(event, QueryStartedEvent), isinstance(event.id, uuid.UUID))
        )
        self.run = event.runId

    def onQueryProgress(self, event):
        p = event.progress
        if p.numInputRows:
            same = p.runId == self.run
            told.append(
                ("progress", p.name, p.batchId, p.numInputRows, same, isinstance(event, QueryProgressEvent))
            )

    def onQueryIdle(self, event):
        pass

    def onQueryTerminated(self, event):
        error = (event.exception or "").splitlines()[:1]
        same = event.runId == self.run
        told.append(
            (
                "terminated",
                bool(error),
                event.errorClassOnException,
                same,
                isinstance(event, QueryTerminatedEvent),
            )
        )


def fails(frame, batch):
    raise ValueError("never")


def run(name, end, function=None, **trigger):
    writer = (
        events.writeStream.queryName(name)
        .option("checkpointLocation", f"{target}/_{name}")
        .trigger(**trigger)
    )
    query = (writer.foreachBatch(function) if function else writer.format("noop")).start()
    end(query)
    deadline = time.time() + 10
    while not any(event[0] == "terminated" for event in told) and time.time() < deadline:
        time.sleep(0.1)
    print(name)
    for event in told:
        print("   ", *event)
    told.clear()


def work_off_and_stop(query):
    query.processAllAvailable()
    time.sleep(0.5)  # events come in a thread of their own
    query.stop()


def wait_for_failure(query):
    try:
        query.awaitTermination()
    except Exception as e:
        print(type(e).__name__)


listener = Listener()
spark.streams.addListener(listener)
run("stopped", work_off_and_stop, processingTime="100 milliseconds")
run("ended", lambda query: query.awaitTermination(), availableNow=True)
run("failed", wait_for_failure, fails, processingTime="100 milliseconds")
spark.streams.removeListener(listener)
query = (
    events.writeStream.format("noop")
    .queryName("unheard")
    .option("checkpointLocation", f"{target}/_u")
    .start()
)
query.processAllAvailable()
query.stop()
time.sleep(1)
print("after removal:", told)
sys.exit(0)
