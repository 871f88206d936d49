"""Several queries share one input: a stage with parallelism above 1.

The files of a folder are assigned to the shards, and each shard ends when it has read its files. Interrupt
the job with Ctrl-C and start it again with another parallelism: the remaining files are redistributed, and no
file is read twice.

    python -m streamjob.runtime --local examples/shards/app.py
    python -m streamjob.runtime --local examples/shards/app.py --parallelism 2
"""

import argparse
import json
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

from streamjob import job

SCHEMA = "sensor long, value long"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="shards-data", help="folder of everything the job reads and writes")
    parser.add_argument("--parallelism", type=int, default=3)
    options = parser.parse_args()
    data = Path(options.data).absolute()
    spark = SparkSession.builder.appName("shards").getOrCreate()
    # Without the runtime, each query's checkpoint directory is in this folder.
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(data / "checkpoints"))
    make_input(data / "in")

    slow = udf(lambda value: time.sleep(0.1) or value, "long")
    for shard in job.shards("copy", options.parallelism):
        files = (
            spark.readStream.schema(SCHEMA)
            .option("maxFilesPerTrigger", 1)
            .json(shard.files(str(data / "in")))
        )
        rows = files.select("sensor", slow(col("value")).alias("value"))
        writer = rows.writeStream.queryName(shard.name).format("parquet").trigger(availableNow=True)
        writer.start(str(data / "out" / str(shard.index)))
    for query in spark.streams.active:
        query.awaitTermination()


def make_input(folder: Path) -> None:
    """Write 60 files of ten rows each."""
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(60):
        rows = [{"sensor": s, "value": 10 * n + s} for s in range(10)]
        (folder / f"{n:02}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
