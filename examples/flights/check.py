"""Compare the stream's output, window by window, with the same query run as a batch over the same topic.

Exit code 0: every window is present exactly once, with the same figures. Otherwise 1.
"""

import argparse
import json
import sys
from collections import Counter

from app import hourly, parsed
from pyspark.sql import DataFrame, SparkSession

TOLERANCE = 1e-9
SHOWN = 5
Figures = dict[tuple[int, str], tuple[int, float]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brokers", default="kafka:9092", help="Kafka's bootstrap servers")
    parser.add_argument("--topic", default="flights")
    parser.add_argument("--output", default="/data/flights/hourly", help="folder that the job wrote")
    args = parser.parse_args()
    spark = (
        SparkSession.builder.appName("flights-check")
        .master("local[*]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    messages = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", args.brokers)
        .option("subscribe", args.topic)
        .load()
        .cache()
    )
    result = compare(rows(hourly(parsed(messages))), rows(spark.read.parquet(args.output)))
    result = {"messages": messages.count()} | result
    spark.stop()
    show(result)
    return 0 if result["equal"] else 1


def rows(table: DataFrame) -> list[tuple[int, str, int, float]]:
    found = table.selectExpr("unix_seconds(hour)", "origin", "departures", "mean_delay").collect()
    return [(row[0], row[1], row[2], row[3]) for row in found]


def compare(
    batch: list[tuple[int, str, int, float]], stream: list[tuple[int, str, int, float]]
) -> dict[str, object]:
    """The differences. A window is identified by its hour and origin."""
    expected: Figures = {(hour, origin): (count, mean) for hour, origin, count, mean in batch}
    times = Counter((hour, origin) for hour, origin, *_ in stream)
    different = [
        (hour, origin)
        for hour, origin, count, mean in stream
        if (hour, origin) in expected and not same(expected[hour, origin], (count, mean))
    ]
    findings = {
        "missing": sorted(expected.keys() - times.keys()),
        "unexpected": sorted(times.keys() - expected.keys()),
        "twice": sorted(window for window, number in times.items() if number > 1),
        "different": sorted(different),
    }
    return {
        "windows_batch": len(batch),
        "windows_stream": len(stream),
        "departures_batch": sum(row[2] for row in batch),
        "departures_stream": sum(row[2] for row in stream),
        **{name: len(windows) for name, windows in findings.items()},
        "examples": {name: windows[:SHOWN] for name, windows in findings.items() if windows},
        "equal": not any(findings.values()),
    }


def same(expected: tuple[int, float], found: tuple[int, float]) -> bool:
    return expected[0] == found[0] and abs(expected[1] - found[1]) <= TOLERANCE


def show(result: dict[str, object]) -> None:
    """Print a table, followed by one line with the same result as JSON."""
    print(f"{'':12}{'batch':>12}{'stream':>12}")
    for name in ("windows", "departures"):
        print(f"{name:12}{result[f'{name}_batch']:>12,}{result[f'{name}_stream']:>12,}")
    for name in ("missing", "unexpected", "twice", "different"):
        print(f"{name:12}{result[name]:>24,}")
    print(
        "The stream's windows are those of the batch." if result["equal"] else "The stream's windows DIFFER."
    )
    print(json.dumps(result))


if __name__ == "__main__":
    sys.exit(main())
