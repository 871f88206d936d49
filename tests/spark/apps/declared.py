"""Two queries whose edge Spark does not show: a foreachBatch function writes the files that the other one
reads.

The other one looks for them once an hour. Arguments: input folder, home, when the edge is declared: `before`
or `after`.
"""

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from windows import SCHEMA, windows

from streamjob import job


def main(source: str, home: str, when: str = "before") -> None:
    spark = SparkSession.builder.getOrCreate()
    Path(home, "loaded").mkdir(parents=True, exist_ok=True)
    if when == "before":
        job.edge("loader", "windows")

    def load(frame: DataFrame, batch: int) -> None:
        frame.write.mode("append").json(f"{home}/loaded")

    loaded = spark.readStream.schema(SCHEMA).json(f"{home}/loaded")
    reader = windows(loaded).writeStream.queryName("windows").format("json").option("path", f"{home}/windows")
    reader.trigger(processingTime="1 hour").start()
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    writer = events.writeStream.foreachBatch(load).queryName("loader")
    writer.trigger(processingTime="100 milliseconds").start()
    if when == "after":
        job.edge("loader", "windows")
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
