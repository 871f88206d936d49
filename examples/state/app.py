"""A foreachBatch function that reports each sensor once, and a second query that reads the reports.

Spark does not see the function's state, nor that one query reads the other's output. The script therefore
declares both.

    python -m streamjob.runtime --local examples/state/app.py     # Ctrl-C: stop with savepoint
"""

import argparse
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from streamjob import job

SENSORS = 12

reported = job.list_state("reported", query="report")  # always consistent with the committed batches
job.edge("report", "letters")  # in a drain, `letters` ends only after it has read all output of `report`


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
