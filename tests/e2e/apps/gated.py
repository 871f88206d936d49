"""Reads the files of a folder, one in each batch. From the second batch on it waits until the gate is open.

Arguments: the folder, and the file that opens the gate.
"""

import sys
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

FOLDER, GATE = sys.argv[1], Path(sys.argv[2])


def pass_gate(frame: DataFrame, batch: int) -> None:
    while batch > 0 and not GATE.exists():
        time.sleep(0.1)
    frame.collect()


files = (
    SparkSession.builder.getOrCreate().readStream.format("text").option("maxFilesPerTrigger", 1).load(FOLDER)
)
files.writeStream.queryName("files").foreachBatch(pass_gate).start().awaitTermination()
