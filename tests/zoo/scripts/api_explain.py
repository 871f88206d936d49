"""StreamingQuery.explain, before and after a batch.

[zoo]
to_its_end = "it asks questions, and has no output"
"""

import contextlib
import io
import sys

from pyspark.sql import SparkSession

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.getOrCreate()
events = spark.readStream.schema("k string, v long").json(source)
query = (
    events.groupBy("k")
    .count()
    .writeStream.format("memory")
    .queryName("counts")
    .outputMode("complete")
    .start()
)
query.processAllAvailable()
for extended in False, True:
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        query.explain(extended)
    print([line for line in text.getvalue().splitlines() if line.startswith("==")])
    print("StateStoreSave" in text.getvalue())
query.stop()
