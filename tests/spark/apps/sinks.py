"""Windows written by two queries to transactional sinks, files and a table.

Arguments: input folder, home, JDBC URL, and the table.
"""

import sys

from pyspark.sql import SparkSession

from streamjob.sinks import FileSink, PostgresSink

try:
    import killer
    from windows import SCHEMA, windows  # started as a script
except ImportError:
    from . import killer
    from .windows import SCHEMA, windows


def main(source: str, home: str, url: str, table: str = "windows") -> None:
    killer.install()
    spark = SparkSession.builder.appName("sinks").getOrCreate()
    for name, sink in (("files", FileSink(f"{home}/files")), ("table", PostgresSink(url, table))):
        events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(source)
        rows = windows(events).selectExpr("unix_seconds(window.start) AS start", "k", "n", "s")
        writer = rows.writeStream.queryName(name).outputMode("append").foreachBatch(sink)
        writer.trigger(processingTime="100 milliseconds").start()
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
