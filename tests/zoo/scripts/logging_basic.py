"""logging.basicConfig to standard output.

[zoo]
[zoo.outputs]
copy = "fields(rows, 'v')"
"""

import logging
import sys

from pyspark.sql import SparkSession

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
logging.getLogger("py4j").setLevel(logging.WARNING)
log = logging.getLogger("copy")

source, target = sys.argv[1], sys.argv[2]
log.info("beginning")
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(source)
writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
query = writer.trigger(availableNow=True).start(f"{target}/copy", format="json")
query.awaitTermination()
log.info("ended, active: %s", query.isActive)
