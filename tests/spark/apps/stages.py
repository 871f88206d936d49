"""A plain PySpark job of three queries: clean writes files that windows and totals read.

Arguments: input folder, home, and what clean is: `endless`, or `bounded` (its input is what is there when it
starts; then totals reads the input itself).
"""

import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

try:
    from windows import SCHEMA, windows  # started as a script
except ImportError:
    from .windows import SCHEMA, windows


def clean(events: DataFrame) -> DataFrame:
    return events.where("v % 10 < 9")


def totals(events: DataFrame) -> DataFrame:
    late = events.withWatermark("t", "10 minutes")
    return late.groupBy(F.window("t", "1 hour")).agg(F.count("*").alias("n"), F.sum("v").alias("s"))


def main(source: str, home: str, upstream: str = "endless") -> None:
    spark = SparkSession.builder.appName("stages").getOrCreate()

    def write(frame: DataFrame, name: str, **trigger: Any) -> None:
        writer = frame.writeStream.queryName(name).format("json").option("path", f"{home}/{name}")
        writer.outputMode("append").trigger(**(trigger or {"processingTime": "100 milliseconds"})).start()

    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    write(clean(events), "clean", **({"availableNow": True} if upstream == "bounded" else {}))
    cleaned = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(f"{home}/clean")
    write(windows(cleaned), "windows")
    write(totals(clean(events) if upstream == "bounded" else cleaned), "totals")
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
