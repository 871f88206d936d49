"""A foreachBatch function that remembers which sensors it has reported, so that each is reported once, and a query that reads
its reports: two things that Spark does not show, and that the script therefore says.

python -m streamjob.runtime --local examples/state/app.py     # Ctrl-C: stop with savepoint; the next start remembers
"""

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from streamjob import job

SENSORS = 12

reported = job.list_state("reported", query="report")  # kept exactly with the batches that are committed
job.edge("report", "letters")  # at the end, letters takes all that report has left


def report_into(folder: Path, readings: DataFrame, batch: int) -> None:
    sensors = [str(row.sensor) for row in readings.select("sensor").distinct().collect()]
    new = sorted(set(sensors) - set(reported))
    if new:
        frame = readings.sparkSession.createDataFrame(
            [(sensor, batch) for sensor in new], "sensor string, batch long"
        )
        frame.write.mode("append").json(str(folder))
        reported.extend(new)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="state-data", help="folder of the reports")
    reports = Path(parser.parse_args().data) / "reports"
    reports.mkdir(parents=True, exist_ok=True)
    spark = SparkSession.builder.appName("state").getOrCreate()

    ticks = spark.readStream.format("rate").option("rowsPerSecond", 1).load()
    readings = ticks.select((col("value") * 7 % SENSORS).alias("sensor"))
    writer = readings.writeStream.queryName("report")
    writer.foreachBatch(lambda frame, batch: report_into(reports, frame, batch)).start()

    letters = spark.readStream.schema("sensor string, batch long").json(str(reports))
    letters.writeStream.queryName("letters").format("console").trigger(processingTime="10 seconds").start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
