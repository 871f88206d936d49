"""sys.excepthook writes down what has ended the script.

[zoo]
exit = 1
[zoo.outputs]
copy = "fields(rows, 'v')"
"crash.txt" = "['LookupError: no such thing']"
"""

import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]


def write_down(kind, error, traceback):
    with open(f"{target}/crash.txt", "w") as file:
        file.write(f"{kind.__name__}: {error}\n")
    print("written down")


sys.excepthook = write_down
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(source)
writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
writer.trigger(availableNow=True).start(f"{target}/copy", format="json").awaitTermination()
raise LookupError("no such thing")
