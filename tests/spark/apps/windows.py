"""A plain PySpark job: counts events per window and key.

Arguments: input folder, output folder, how it waits.
"""

import sys
import time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

SCHEMA = "t timestamp, k string, v long"


def windows(events: DataFrame) -> DataFrame:
    late = events.withWatermark("t", "10 minutes")
    return late.groupBy(F.window("t", "5 minutes"), "k").agg(F.count("*").alias("n"), F.sum("v").alias("s"))


def main(source: str, sink: str, how: str = "await") -> None:
    spark = SparkSession.builder.appName("windows").getOrCreate()
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    writer = windows(events).writeStream.format("parquet").option("path", sink).outputMode("append")
    if how == "available-now":
        query = writer.trigger(availableNow=True).start()
    elif how == "slow":
        slow = F.udf(lambda v: time.sleep(0.05) or v, "long")
        query = (
            windows(events.withColumn("v", slow("v")))
            .writeStream.format("parquet")
            .option("path", sink)
            .start()
        )
    else:
        query = writer.trigger(processingTime="200 milliseconds").start()
    if how == "poll":
        while query.isActive and spark.streams.active:
            time.sleep(0.01)
        query.stop()
        spark.stop()
        print("script: stopped spark itself", flush=True)
    elif how == "any":
        spark.streams.awaitAnyTermination()
        spark.stop()
    elif how == "fall-off":
        pass
    elif how == "script-stops":
        while query.lastProgress is None:
            time.sleep(0.01)
        query.stop()
        print("script: stopped the query", flush=True)
    else:
        query.awaitTermination()
        print("script: awaitTermination returned", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
