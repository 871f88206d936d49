"""Spark's programming guide: foreach with an object that opens, processes and closes; a file for each partition and epoch.

[zoo]
[zoo.outputs]
rows = "fields(rows, 'k', 'v')"
"""

import json
import os
import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]


class ForeachWriter:
    def open(self, partition_id, epoch_id):
        os.makedirs(f"{target}/rows", exist_ok=True)
        self.path = f"{target}/rows/part-{epoch_id}-{partition_id}.json"
        self.file = open(self.path + ".tmp", "w")
        return True

    def process(self, row):
        self.file.write(json.dumps(row.asDict()) + "\n")

    def close(self, error):
        self.file.close()
        if error is None:
            os.rename(self.path + ".tmp", self.path)


spark = SparkSession.builder.getOrCreate()
streamingDF = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", 1).json(source)
writer = streamingDF.writeStream.foreach(ForeachWriter()).option(
    "checkpointLocation", f"{target}/_checkpoint"
)
writer.trigger(availableNow=True).start().awaitTermination()
