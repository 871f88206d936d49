"""Three queries that read a topic, a folder and a Delta table in small batches. Batch N of each waits until
the file `gate-N` exists.

Arguments: the job's folder, the brokers, and what the topic, the folder and the table are called.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

HOME, BROKERS, TOPIC, FOLDER, TABLE = Path(sys.argv[1]), *sys.argv[2:6]


def at_gate(frame: DataFrame, batch: int) -> None:
    while not (HOME / f"gate-{batch}").exists():
        time.sleep(0.05)
    frame.collect()


spark = SparkSession.builder.getOrCreate()
topic = (
    spark.readStream.format("kafka")
    .option("kafka.bootstrap.servers", BROKERS)
    .option("subscribe", TOPIC)
    .option("startingOffsets", "earliest")
    .option("maxOffsetsPerTrigger", 10)
    .load()
)
files = spark.readStream.format("text").option("maxFilesPerTrigger", 1).load(FOLDER)
table = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(TABLE)
for name, frame in (("topic", topic), ("files", files), ("table", table)):
    frame.writeStream.queryName(name).foreachBatch(at_gate).trigger(processingTime="200 milliseconds").start()
spark.streams.awaitAnyTermination()
