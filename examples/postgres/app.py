"""Write windows to a PostgreSQL table.

Readers see the rows of a checkpoint all together and exactly once, even after crashes.

    createdb shop && psql shop -c 'CREATE TABLE minutes (start timestamptz, sensor bigint, n bigint, PRIMARY
    KEY (start, sensor))' export PGUSER=shop PGPASSWORD=... python -m streamjob.runtime --local
    examples/postgres/app.py --jars postgresql.jar --url jdbc:postgresql://localhost/shop

`python examples/postgres/app.py …` runs the script without the runtime; each batch is then visible
immediately.
"""

import argparse
import os

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, count, window

from streamjob.sinks import PostgresSink


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--url", required=True, help="jdbc:postgresql://HOST/DATABASE")
    parser.add_argument("--table", default="minutes")
    parser.add_argument("--jars", default="", help="the driver for Java, where Spark does not have it")
    arguments = parser.parse_args()
    spark = SparkSession.builder.appName("postgres").config("spark.jars", arguments.jars).getOrCreate()

    readings = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    minutes = (
        readings.withColumn("sensor", col("value") % 5)
        .withWatermark("timestamp", "10 seconds")
        .groupBy(window("timestamp", "1 minute"), "sensor")
        .agg(count("*").alias("n"))
        .select(col("window.start").alias("start"), "sensor", "n")
    )
    sink = PostgresSink(
        arguments.url, arguments.table, user=os.environ["PGUSER"], password=os.environ.get("PGPASSWORD", "")
    )
    writer = minutes.writeStream.queryName("minutes").outputMode("append").foreachBatch(sink)
    writer.trigger(processingTime="2 seconds").start().awaitTermination()


if __name__ == "__main__":
    main()
