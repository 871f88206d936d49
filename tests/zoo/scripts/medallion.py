"""Bronze, silver, gold, one after another: each works off what there is, and the next one reads what it has written.

[zoo]
at_end = "medallion done"
[zoo.outputs]
bronze = "fields(rows, 't', 'k', 'v')"
silver = "fields([r for r in rows if r['v'] % 2 == 0], 't', 'k', 'v')"
gold = "windows([r for r in rows if r['v'] % 2 == 0], minutes=5, delay=10, closed=closed)"
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

SCHEMA = "t timestamp, k string, v long"


def write(frame, name, target):
    return (
        frame.writeStream.queryName(name)
        .format("parquet")
        .option("checkpointLocation", f"{target}/_checkpoints/{name}")
        .trigger(availableNow=True)
        .start(f"{target}/{name}")
    )


def main(source, target):
    spark = SparkSession.builder.appName("medallion").getOrCreate()
    raw = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    bronze = write(raw, "bronze", target)
    bronze.awaitTermination()

    cleaned = spark.readStream.schema(SCHEMA).parquet(f"{target}/bronze").where("v % 2 = 0")
    silver = write(cleaned, "silver", target)
    silver.awaitTermination()

    events = spark.readStream.schema(SCHEMA).parquet(f"{target}/silver").withWatermark("t", "10 minutes")
    counts = events.groupBy(F.window("t", "5 minutes"), "k").agg(
        F.count("*").alias("n"), F.sum("v").alias("s")
    )
    gold = write(counts.select(F.col("window.start").alias("start"), "k", "n", "s"), "gold", target)
    gold.awaitTermination()
    print("medallion done")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
