"""A continuous trigger runs no micro-batches: refused, before anything is written.

[zoo]
before = 0
refused = "UnsupportedTrigger"
compare_stdout = false
"""

import sys
import time

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
rate = spark.readStream.format("rate").option("rowsPerSecond", 10).option("numPartitions", 1).load()
query = rate.writeStream.format("console").trigger(continuous="1 second").start()
time.sleep(3)
query.stop()
