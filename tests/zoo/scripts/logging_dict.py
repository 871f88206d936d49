"""logging.config.dictConfig, which disables all loggers that are there, and sends the root's to a file.

[zoo]
[zoo.outputs]
copy = "fields(rows, 'v')"
"copy.log" = "['INFO copy beginning', 'WARNING copy ended']"
[zoo.only]
"copy.log" = ["plain", "runtime"]
"""

import logging
import logging.config
import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
logging.config.dictConfig(
    {
        "version": 1,
        "disable_existing_loggers": True,
        "formatters": {"plain": {"format": "%(levelname)s %(name)s %(message)s"}},
        "handlers": {
            "file": {"class": "logging.FileHandler", "filename": f"{target}/copy.log", "formatter": "plain"}
        },
        "root": {"handlers": ["file"], "level": "INFO"},
        "loggers": {"py4j": {"level": "ERROR"}},
    }
)
log = logging.getLogger("copy")
log.info("beginning")
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("v long").option("maxFilesPerTrigger", 1).json(source)
writer = events.writeStream.queryName("copy").option("checkpointLocation", f"{target}/_copy")
writer.trigger(availableNow=True).start(f"{target}/copy", format="json").awaitTermination()
log.warning("ended")
