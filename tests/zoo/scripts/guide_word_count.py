"""Spark's programming guide: the word count, over files, complete mode; the counts of all time replace those of before.

[zoo]
before = 4
during = 4
ends = false
[zoo.outputs]
counts = "words(rows)"
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import explode, split

source, target = sys.argv[1], sys.argv[2]
spark = SparkSession.builder.appName("StructuredNetworkWordCount").getOrCreate()
lines = spark.readStream.schema("text string").option("maxFilesPerTrigger", 1).json(source)

# Split the lines into words
words = lines.select(explode(split(lines.text, " ")).alias("word"))

# Generate running word count
wordCounts = words.groupBy("word").count()


def save(counts, epoch):
    counts.coalesce(1).write.mode("overwrite").json(f"{target}/counts")


query = (
    wordCounts.writeStream.outputMode("complete")
    .foreachBatch(save)
    .option("checkpointLocation", f"{target}/_checkpoint")
    .start()
)
query.awaitTermination()
