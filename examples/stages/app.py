"""Four queries in one job, one of them bounded. Plain PySpark; each query has a name.

readings ──► clean ──┬──► minutes (windows of a minute)
                     └──► totals  (per sensor; also reads the output of corrections)
corrections (bounded: the files present at the start) ──► totals

python -m streamjob.runtime --local examples/stages/app.py     # Ctrl-C: stop with savepoint
"""

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, sum, window

SCHEMA = "time timestamp, sensor long, value long"
CORRECTIONS = '{"time": "2026-01-01T00:00:00Z", "sensor": 1, "value": 100}\n'


def clean(readings: DataFrame) -> DataFrame:
    return readings.select(col("timestamp").alias("time"), (col("value") % 5).alias("sensor"), "value").where(
        "sensor < 4"
    )


def minutes(rows: DataFrame) -> DataFrame:
    late = rows.withWatermark("time", "10 seconds")
    return late.groupBy(window("time", "1 minute"), "sensor").agg(count("*").alias("n"))


def totals(rows: DataFrame) -> DataFrame:
    return rows.groupBy("sensor").agg(sum("value").alias("total"))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="stages-data", help="folder of everything the job reads and writes")
    data = Path(parser.parse_args().data)
    spark = SparkSession.builder.appName("stages").getOrCreate()

    (data / "incoming").mkdir(parents=True, exist_ok=True)
    (data / "incoming" / "first.json").write_text(CORRECTIONS)
    corrections = spark.readStream.schema(SCHEMA).json(str(data / "incoming"))
    write(corrections, "corrections", data, availableNow=True)

    readings = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    write(clean(readings), "clean", data, processingTime="2 seconds")

    write(minutes(read(spark, data / "clean")), "minutes", data, processingTime="2 seconds")
    both = read(spark, data / "clean").union(read(spark, data / "corrections"))
    console = totals(both).writeStream.queryName("totals").outputMode("update").format("console")
    console.trigger(processingTime="5 seconds").start()
    spark.streams.awaitAnyTermination()


def read(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).parquet(str(folder))


def write(frame: DataFrame, name: str, data: Path, **trigger: object) -> None:
    writer = frame.writeStream.queryName(name).format("parquet").outputMode("append").trigger(**trigger)
    writer.start(str(data / name))


if __name__ == "__main__":
    main()
