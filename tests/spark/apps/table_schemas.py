"""For each pair of a table's columns and a query's: what we say of it, and what the real sink does.

Prints a JSON object for each pair, one a line: `format`, `table`, `query`, `unfit` (our reason, or null) and
`failed` (whether a query of plain Spark fails). Arguments: a folder, the settings of the session as a JSON
object, and a JSON list of triples (format, columns of the table, columns of the query).
"""

import json
import sys
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from streamjob.runtime.spark.tables.delta import DeltaTable
from streamjob.runtime.spark.tables.iceberg import IcebergTable
from streamjob.runtime.spark.tables.table import Table


def main() -> None:
    home = Path(sys.argv[1])
    builder = SparkSession.builder
    for key, value in json.loads(sys.argv[2]).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    (home / "in").mkdir()
    (home / "in" / "0.json").write_text('{"v": 1, "k": "a"}\n')
    for number, (form, columns, query) in enumerate(json.loads(sys.argv[3])):
        folder = home / f"{number}"
        table: Table = IcebergTable(spark, f"`ice-lake`.db.t{number}")
        if form == "delta":
            table = DeltaTable(spark, f"delta.`{folder}`", f"{folder}")
        spark.sql(f"CREATE TABLE {table.name} ({columns}) USING {form}")
        rows = spark.readStream.schema("v long, k string").json(str(home / "in")).selectExpr(*query)
        unfit = table.unfit(rows, {})
        writer = rows.writeStream.format(form).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", f"{home}/checkpoints/{number}")
        failed = False
        try:
            started = writer.toTable(table.name) if form == "iceberg" else writer.start(f"{folder}")
            started.awaitTermination()
        except StreamingQueryException:
            failed = True
        found = {"format": form, "table": columns, "query": query, "unfit": unfit, "failed": failed}
        print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
