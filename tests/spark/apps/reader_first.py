"""`totals`, once an hour, reads what `clean` writes, and is started first.

A backfill runs to its end in between.

:param 1: the home of everything.
"""

import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

home = sys.argv[1]
spark = SparkSession.builder.getOrCreate()


def read(folder: str, **options: Any) -> DataFrame:
    return spark.readStream.schema("t timestamp, k string").options(**options).json(f"{home}/{folder}")


def write(frame: DataFrame, name: str, **trigger: Any) -> StreamingQuery:
    writer = frame.writeStream.queryName(name).format("json").option("path", f"{home}/{name}")
    return writer.outputMode("append").trigger(**trigger).start()


cleaned = read("clean").withWatermark("t", "10 minutes")
counted = cleaned.groupBy(F.window("t", "5 minutes"), "k").agg(F.count("*").alias("n"))
write(counted, "totals", processingTime="1 hour")
write(read("old"), "backfill", availableNow=True).awaitTermination()
write(read("in", maxFilesPerTrigger=1), "clean", processingTime="200 milliseconds")
spark.streams.awaitAnyTermination()
