"""A job whose hooks write down that they were called.

Arguments: input folder, folder for output and notes.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from windows import SCHEMA, windows

from streamjob import job


def main(source: str, home: str) -> None:
    notes = Path(home) / "notes"
    obstacle = Path(home) / "obstacle"

    def note(what: str) -> None:
        rows = sum(f.stat().st_size > 0 for f in Path(home, "out").glob("*.json"))
        with notes.open("a") as file:
            file.write(f"{what} {rows}\n")

    job.on_end_of_data()(lambda: note("end of data"))
    job.on_close()(lambda: note("close"))

    @job.on_finish()
    def finish() -> None:
        if obstacle.exists():
            raise ConnectionError("nobody there")
        note("finish")

    spark = SparkSession.builder.getOrCreate()
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    writer = windows(events).writeStream.format("json").option("path", f"{home}/out")
    writer.trigger(processingTime="100 milliseconds").start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
