"""A pyspark thread loads a folder again and again, and the main thread waits for the query that streams from there.

[zoo]
ends = false
during = 1
[zoo.outputs]
silver = "fields(rows, 'v')"
"""

import os
import sys
import time

from pyspark import InheritableThread
from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("refilled").getOrCreate()
os.makedirs(f"{target}/bronze", exist_ok=True)


def load():
    while True:
        events = spark.readStream.schema("v long").option("maxFilesPerTrigger", 2).json(source)
        writer = events.writeStream.queryName("bronze").option("checkpointLocation", f"{target}/_bronze")
        writer.trigger(availableNow=True).start(f"{target}/bronze", format="json").awaitTermination()
        time.sleep(2)


loader = InheritableThread(target=load)
loader.daemon = True
loader.start()
bronze = spark.readStream.schema("v long").json(f"{target}/bronze")
writer = bronze.writeStream.queryName("silver").option("checkpointLocation", f"{target}/_silver")
writer.start(f"{target}/silver", format="json").awaitTermination()
