"""Windows written to a sink whose pre-commit waits for the file HOME/go. Arguments: input folder, home."""

import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession

from streamjob.sinks import FileSink
from streamjob.transactional import Transaction

try:
    from windows import SCHEMA, windows  # started as a script
except ImportError:
    from .windows import SCHEMA, windows


class SlowSink(FileSink):
    def __init__(self, home: str) -> None:
        super().__init__(f"{home}/out")
        self.home = home

    def pre_commit(self, transaction: Transaction) -> None:
        while not Path(f"{self.home}/go").exists():
            time.sleep(0.05)
        super().pre_commit(transaction)


def main(source: str, home: str) -> None:
    spark = SparkSession.builder.appName("slow").getOrCreate()
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    windows(events).writeStream.foreachBatch(SlowSink(home)).outputMode("append").start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
