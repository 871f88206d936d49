"""Copies the numbers of a Kafka topic to files. Each takes a core for a hundredth of a second, without work.

load.py TOPIC OUTPUT
"""

import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf


def main(topic: str, output: str) -> None:
    spark = SparkSession.builder.getOrCreate()

    def slowly(value: str) -> int:
        time.sleep(0.01)
        return int(value)

    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "kafka:9092")
    rows = source.option("subscribe", topic).option("startingOffsets", "earliest").load()
    numbers = rows.select(udf(slowly, "long")(col("value").cast("string")).alias("n"))
    writer = numbers.writeStream.queryName("load").format("json").trigger(processingTime="2 seconds")
    writer.start(output).awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
