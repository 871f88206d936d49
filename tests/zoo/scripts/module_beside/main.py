"""A script with modules beside it, one of which its functions on executors use too.

[zoo]
[zoo.outputs]
shouted = "[{'k': r['k'].upper() + '!', 'v': r['v'] + 1} for r in rows]"
"""

import os
import sys

from settings import SCHEMA, checkpoint
from text_tools import shout

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

if __name__ == "__main__":
    source, target = sys.argv[1], sys.argv[2]
    spark = SparkSession.builder.getOrCreate()
    spark.sparkContext.addPyFile(os.path.join(os.path.dirname(os.path.abspath(__file__)), "text_tools.py"))
    loud = udf(shout)
    events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
    shouted = events.select(loud("k").alias("k"), (col("v") + 1).alias("v"))
    writer = shouted.writeStream.queryName("shouted").option("checkpointLocation", checkpoint(target))
    writer.trigger(availableNow=True).start(f"{target}/shouted", format="json").awaitTermination()
    print("main is", sys.modules["__main__"].__file__.split("/")[-2:])
