"""A query whose batch ends the process, as an OOM kill does, if there is a file `crash` and rows come out.

:param 1: the home of everything.
:param 2: with `behind`, the query reads what another one, without windows, has written.
"""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

home = Path(sys.argv[1])
spark = SparkSession.builder.getOrCreate()


def each(frame: DataFrame, batch: int) -> None:
    rows = [[batch, row["k"], row["n"]] for row in frame.select("k", "n").collect()]
    if rows and (home / "crash").exists():
        os._exit(9)
    with (home / "out.jsonl").open("a") as out:
        out.writelines(json.dumps(row) + "\n" for row in rows)


read = spark.readStream.schema("t timestamp, k string")
if "behind" in sys.argv:
    clean = read.json(f"{home}/in").writeStream.queryName("clean").format("json")
    clean.trigger(processingTime="200 milliseconds").start(f"{home}/clean")
events = read.json(f"{home}/{'clean' if 'behind' in sys.argv else 'in'}").withWatermark("t", "10 minutes")
counted = events.groupBy(F.window("t", "5 minutes"), "k").agg(F.count("*").alias("n"))
orders = counted.writeStream.queryName("orders").foreachBatch(each).outputMode("append")
orders.trigger(processingTime="200 milliseconds").start().awaitTermination()
