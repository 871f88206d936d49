"""The measured job: counts per key and day. All windows stay open until a drain. Plain PySpark.

Arguments: the input ("files FOLDER" or "rate ROWS_PER_BATCH KEYS") and, to run without the runtime, a
checkpoint folder.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


def from_files(spark: SparkSession, folder: str) -> DataFrame:
    rows = (
        spark.readStream.schema("k long, v long, t timestamp").option("maxFilesPerTrigger", 1).parquet(folder)
    )
    return rows.withWatermark("t", "1 hour").groupBy("k", F.window("t", "1 day")).agg(F.count("*").alias("n"))


def from_rate(spark: SparkSession, rows: str, keys: str) -> DataFrame:
    rate = (
        spark.readStream.format("rate-micro-batch")
        .option("rowsPerBatch", rows)
        .option("numPartitions", 2)
        .load()
    )
    timed = rate.withWatermark("timestamp", "1 hour")
    return timed.groupBy((F.col("value") % int(keys)).alias("g"), F.window("timestamp", "1 day")).count()


def main(kind: str, *args: str) -> None:
    spark = SparkSession.builder.appName("bench").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    counts = from_files(spark, args[0]) if kind == "files" else from_rate(spark, args[0], args[1])
    writer = counts.writeStream.outputMode("append").format("noop")
    rest = args[1:] if kind == "files" else args[2:]
    if rest:
        writer = writer.option("checkpointLocation", rest[0])
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
