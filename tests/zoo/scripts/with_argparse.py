"""argparse, a main() that returns the exit code, and `if __name__ == "__main__"`.

[zoo]
arguments = ["--files", "2", "--key", "k1", "--key=k2", "--verbose"]
[zoo.outputs]
chosen = "fields([r for r in rows if r['k'] in ('k1', 'k2')], 'k', 'v')"
"""

import argparse
import os
import sys

from pyspark.sql import SparkSession


def parse(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--key", action="append")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args(arguments)


def main():
    options = parse()
    if options.verbose:
        print(os.path.basename(sys.argv[0]), options.files, options.key, __name__, os.path.basename(__file__))
    spark = SparkSession.builder.appName("argparse").getOrCreate()
    events = spark.readStream.schema("k string, v long").option("maxFilesPerTrigger", options.files)
    chosen = events.json(options.source).where(f"k in ({', '.join(map(repr, options.key))})")
    writer = chosen.writeStream.queryName("chosen").option("checkpointLocation", f"{options.target}/_chosen")
    writer.trigger(availableNow=True).start(f"{options.target}/chosen", format="json").awaitTermination()
    return 0


if __name__ == "__main__":
    sys.exit(main())
