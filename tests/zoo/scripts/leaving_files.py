"""An atexit handler that writes a file, and a buffered file that is never closed explicitly.

[zoo]
[zoo.outputs]
copy = "fields(rows, 'v')"
"bye.txt" = "['bye']"
"journal.txt" = "['began', 'ended']"
"""

import atexit
import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
journal = open(f"{target}/journal.txt", "w")
journal.write("began\n")


@atexit.register
def bye():
    with open(f"{target}/bye.txt", "w") as file:
        file.write("bye\n")


spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(source)
writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
writer.trigger(availableNow=True).start(f"{target}/copy", format="json").awaitTermination()
journal.write("ended\n")
