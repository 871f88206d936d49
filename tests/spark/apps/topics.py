"""Copies one topic into another. Arguments: the brokers, the topic to read and the one to write."""

import sys

from pyspark.sql import SparkSession

BROKERS, SOURCE, TARGET = sys.argv[1:4]
kafka = {"kafka.bootstrap.servers": BROKERS}
rows = (
    SparkSession.builder.getOrCreate()
    .readStream.format("kafka")
    .options(**kafka, subscribe=SOURCE, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    .load()
)
writer = (
    rows.select("key", "value").writeStream.queryName("copy").format("kafka").options(**kafka, topic=TARGET)
)
writer.trigger(processingTime="100 milliseconds").start().awaitTermination()
