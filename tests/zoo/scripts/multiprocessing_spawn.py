"""A pool of spawned processes works on what the query has written: they import this script again.

[zoo]
[zoo.outputs]
copy = "fields(rows, 'k', 'v')"
"squares.txt" = "['0', '1', '4', '9', '16']"
"""

import multiprocessing
import sys

from pyspark.sql import SparkSession


def square(n):
    return n * n


def main(source, target):
    spark = SparkSession.builder.getOrCreate()
    events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
    writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
    writer.trigger(availableNow=True).start(f"{target}/copy", format="json").awaitTermination()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.map(square, range(5))
    with open(f"{target}/squares.txt", "w") as file:
        file.writelines(f"{n}\n" for n in found)
    print(found)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
