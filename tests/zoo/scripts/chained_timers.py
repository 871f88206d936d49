"""Event-time timers of which each registers the next one, with transformWithStateInPandas.

[zoo]
before = 4
[zoo.outputs]
reminders = "reminders(rows, delay=5, steps=[3, 90, 240], closed=closed)"
"""

import sys
from collections.abc import Iterator

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import LongType, StringType, StructField, StructType

STEPS = [3, 90, 240]  # minutes after the first event of a key
REMINDER = StructType([StructField("k", StringType()), StructField("step", LongType())])


class Reminders(StatefulProcessor):
    def init(self, handle: StatefulProcessorHandle) -> None:
        self.handle = handle
        self.state = handle.getValueState("state", "first long, step int")

    def handleInputRows(self, key, rows, timerValues) -> Iterator[pd.DataFrame]:
        if not self.state.exists():
            first = int(min(t.timestamp() for frame in rows for t in frame["t"]) * 1000)
            self.state.update((first, 0))
            self.handle.registerTimer(first + STEPS[0] * 60_000)
        return iter(())

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo) -> Iterator[pd.DataFrame]:
        first, step = self.state.get()
        if step + 1 < len(STEPS):
            self.state.update((first, step + 1))
            self.handle.registerTimer(first + STEPS[step + 1] * 60_000)
        yield pd.DataFrame({"k": [key[0]], "step": [step + 1]})

    def close(self) -> None:
        pass


if __name__ == "__main__":
    source, target = sys.argv[1], sys.argv[2]
    spark = SparkSession.builder.appName("reminders").getOrCreate()
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    events = spark.readStream.schema("t timestamp, k string, v long").json(source)
    reminders = (
        events.withWatermark("t", "5 minutes")
        .groupBy("k")
        .transformWithStateInPandas(
            Reminders(), outputStructType=REMINDER, outputMode="Append", timeMode="EventTime"
        )
    )
    writer = reminders.writeStream.queryName("reminders").outputMode("append")
    writer = writer.option("checkpointLocation", f"{target}/_reminders").trigger(availableNow=True)
    writer.start(f"{target}/reminders", format="json").awaitTermination()
    print("all reminders are out that were due")
