"""A job whose foreachBatch function remembers what it has seen.

Arguments: input folder, home, what it does with its state.

Each batch notes in HOME/notes/BATCH what it remembered when it began. While HOME/obstacle exists it changes
the state and hangs.
"""

import json
import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from windows import SCHEMA

from streamjob import job


def main(source: str, home: str, how: str = "remember") -> None:
    folder = Path(home)
    (folder / "notes").mkdir(parents=True, exist_ok=True)
    seen = job.list_state("seen", query="orders")
    limits = job.broadcast_state("limits", query="orders")
    limits.append("initial")

    def each_batch(frame: DataFrame, batch: int) -> None:
        before = list(seen)
        rows = frame.count()
        if not rows:
            return  # the batch of a drain
        seen.append(f"{batch}:{rows}" if how == "remember" else "x" * (65 << 10))
        if (folder / "obstacle").exists():
            (folder / ".hangs").write_text(str(batch))
            (folder / ".hangs").rename(folder / "hangs")  # whoever sees it can read it
            time.sleep(600)
        if batch == 1:
            limits.replace(["changed"])
        (folder / "notes" / str(batch)).write_text(json.dumps([before, list(limits)]))

    spark = SparkSession.builder.getOrCreate()
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    writer = events.writeStream.foreachBatch(each_batch).queryName("orders")
    query = writer.trigger(processingTime="100 milliseconds").start()
    if how == "misspelt":
        job.list_state("more", query="order")
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
