"""A plain PySpark session with tables of some formats, as somebody beside the job has it.

Reads commands from its standard input, a JSON object in each line, and answers each with one line of JSON:

    {"sql": TEXT}                                          the rows
    {"run": FORMAT, "table": …, "from": …, "at": …, "files": N}   run a query to the end of its input; its id

Arguments: the settings of the session, as a JSON object.
"""

import json
import os
import sys
from typing import Any

from pyspark.sql import SparkSession


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print warnings
    builder = SparkSession.builder
    for key, value in json.loads(sys.argv[1]).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        print(json.dumps(answer(spark, json.loads(line)), default=str), file=answers, flush=True)
    spark.stop()


def answer(spark: SparkSession, command: dict[str, Any]) -> object:
    if "sql" in command:
        return [list(row) for row in spark.sql(command["sql"]).collect()]
    rows = spark.readStream.schema("t timestamp, k string, v long").option(
        "maxFilesPerTrigger", command["files"]
    )
    writer = rows.json(command["from"]).select("v").writeStream.option("checkpointLocation", command["at"])
    writer = writer.format(command["run"]).trigger(availableNow=True)
    table = command["table"]
    query = writer.toTable(table) if command["run"] == "iceberg" else writer.start(table)
    query.awaitTermination()
    return query.id


if __name__ == "__main__":
    main()
