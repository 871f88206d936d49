"""applyInPandasWithState: the events of a key are counted until it has been silent for some time.

[zoo]
before = 4
during = 3
ends = false
[zoo.outputs]
sessions = "key_sessions(rows, delay=5, gap=5, closed=closed)"
"""

import sys

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.state import GroupStateTimeout

GAP = 5 * 60_000  # milliseconds


def sessions(key, frames, state):
    if state.hasTimedOut:
        count, last = state.get
        state.remove()
        yield pd.DataFrame({"part": [key[0]], "n": [count]})
        return
    count, last = state.get if state.exists else (0, 0)
    for frame in frames:
        count += len(frame)
        last = max(last, int(frame["t"].max().timestamp() * 1000))
    state.update((count, last))
    state.setTimeoutTimestamp(max(last + GAP, state.getCurrentWatermarkMs() + 1))


source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("t timestamp, k string, v long").option("maxFilesPerTrigger", 1).json(source)
events = events.withWatermark("t", "5 minutes")
# A part is what happens to a key in five minutes.
counted = events.selectExpr(
    "t",
    "k || ' ' || date_format(date_trunc('hour', t), 'HH') || ' ' || cast(minute(t) div 5 as string) as part",
)
counted = counted.groupBy("part").applyInPandasWithState(
    sessions, "part string, n long", "count long, last long", "append", GroupStateTimeout.EventTimeTimeout
)
writer = counted.writeStream.outputMode("append").option("checkpointLocation", f"{target}/_sessions")
writer = writer.trigger(processingTime="200 milliseconds").option("path", f"{target}/sessions")
writer.format("json").start().awaitTermination()
