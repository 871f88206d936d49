"""The command behind `make bench`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from dev.bench import (
    autoscale,
    checkpoints,
    cluster,
    endings,
    failover,
    handover,
    lag,
    protocol,
    savepoint,
    savepoint_s3,
    scale,
    throughput,
    versions,
)
from dev.bench.figures import Comparison, Figures

HELP = """Measure StreamJob on this machine and print Markdown tables (seconds unless said otherwise).

examples:
  make bench                                    everything, about an hour
  python -m dev.bench --only endings --runs 5   stop, drain and resume at 1,000 and 1,000,000 keys; Flink too
  python -m dev.bench --only handover           one local process takes a job over from another one, which
                                                hands over or is killed
  python -m dev.bench --only cluster            stop, resume, hand-over and SIGKILL on the local cluster, or
                                                on CLUSTER=context
  python -m dev.bench --only versions           start, stop and drain with each Spark that is installed
  python -m dev.bench --only savepoint --size 1 savepoints beside cp -r and sync, GB of state
  python -m dev.bench --only savepoint-s3       the same on S3, copied by the server and through the driver
  python -m dev.bench --only savepoint --only savepoint-s3    both in one run
  python -m dev.bench --only checkpoints        job-wide checkpoints of 1, 4 and 16 queries
  python -m dev.bench --only lag                one measurement of the lag, by source
  python -m dev.bench --only protocol           the engine alone, events in a second
  python -m dev.bench --only autoscale          load curves: ways to choose the number of executors
  python -m dev.bench --only scale --jobs 5000  one controller, many jobs, on the local cluster
"""


class Table(NamedTuple):
    title: str
    figures: Figures
    beside: Comparison | None = None


def _endings(arguments: argparse.Namespace, runs: int) -> Iterator[Table]:
    for keys in arguments.keys or (1_000, 1_000_000):
        title = f"{keys:,} keys, RocksDB with changelog"
        yield Table(title, *endings.measure(keys, runs))


def _handover(arguments: argparse.Namespace, runs: int) -> Iterator[Table]:
    for keys in arguments.keys or (1_000, 1_000_000):
        yield Table(f"hand-over in local mode, {keys:,} keys", handover.measure(keys, runs))
        yield Table(f"SIGKILL with a standby, {keys:,} keys", failover.measure(keys, runs))


def _versions(_: argparse.Namespace, runs: int) -> Iterator[Table]:
    for line, figures in versions.measure(runs).items():
        yield Table(f"Spark {line}, {versions.KEYS:,} keys, RocksDB with changelog", figures)


def _savepoints(how: ModuleType, where: str) -> Callable[[argparse.Namespace, int], Iterator[Table]]:
    def tables(arguments: argparse.Namespace, runs: int) -> Iterator[Table]:
        for size in arguments.size or (0.1, 1.0, 10.0):
            title = f"savepoint of {size:g} GB{where}"
            lacks = savepoint.lacks_room(int(size * 1e9), how.COPIES)
            if lacks is None:
                yield Table(title, how.measure(int(size * 1e9), runs))
            else:
                print(f"  {title}: left out, {lacks}", flush=True)

    return tables


def _throughput(_: argparse.Namespace, runs: int) -> Iterator[Table]:
    yield Table("throughput", throughput.measure(runs))


def _checkpoints(_: argparse.Namespace, runs: int) -> Iterator[Table]:
    for queries in (1, 4, 16):
        yield Table(f"job-wide checkpoints, {queries} queries", checkpoints.measure(queries, runs))


def _lag(_: argparse.Namespace, runs: int) -> Iterator[Table]:
    yield Table("one measurement of the lag", lag.measure(runs))


def _protocol(_: argparse.Namespace, runs: int) -> Iterator[Table]:
    yield Table("the protocol engine (events/s)", protocol.measure(runs))


def _cluster(_: argparse.Namespace, runs: int) -> Iterator[Table]:
    yield Table("on the real cluster", cluster.measure(runs))


def _autoscale(_: argparse.Namespace, runs: int) -> Iterator[Table]:
    title = "ways to choose the number of executors, simulated (late, executor-seconds, changes a day)"
    yield Table(title, autoscale.measure())


def _scale(arguments: argparse.Namespace, runs: int) -> Iterator[Table]:
    for size in arguments.jobs or (100, 1_000):
        yield Table(f"one controller, {size:,} StreamJobs", scale.measure(size, runs))


class Part(NamedTuple):
    """A part of the benchmarks.

    :param runs: default number of samples of each figure. With the defaults, all parts together take about an
        hour.
    """

    tables: Callable[[argparse.Namespace, int], Iterator[Table]]
    runs: int


PARTS = {
    "endings": Part(_endings, 3),
    "handover": Part(_handover, 3),
    "cluster": Part(_cluster, 9),
    "versions": Part(_versions, 3),
    "savepoint": Part(_savepoints(savepoint, ""), 2),
    "savepoint-s3": Part(_savepoints(savepoint_s3, " on S3"), 1),
    "throughput": Part(_throughput, 3),
    "checkpoints": Part(_checkpoints, 1),
    "lag": Part(_lag, 2),
    "protocol": Part(_protocol, 5),
    "scale": Part(_scale, 1),
    "autoscale": Part(_autoscale, 1),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dev.bench", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="one part, or several")
    usual = ", ".join(f"{name} {part.runs}" for name, part in PARTS.items())
    parser.add_argument("--runs", type=int, help=f"samples of each figure (default: {usual})")
    parser.add_argument("--keys", type=int, action="append", help="keys of state (default 1000 and 1000000)")
    parser.add_argument(
        "--size",
        type=float,
        action="append",
        help="GB of a savepoint (default 0.1, 1 and 10)",
    )
    parser.add_argument("--jobs", type=int, action="append", help="StreamJobs (default 100 and 1000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there, after each table")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # exit normally, so that the cleanup runs
    results: dict[str, dict[str, list[float]]] = {}
    for name in arguments.only or PARTS:
        part = PARTS[name]
        began = time.monotonic()
        for table in part.tables(arguments, part.runs if arguments.runs is None else arguments.runs):
            _print(table)
            results[table.title] = table.figures.samples
            if arguments.json:
                arguments.json.write_text(json.dumps(results, indent=1))
        print(f"  {name}: {(time.monotonic() - began) / 60:.1f} min", file=sys.stderr, flush=True)
    return 0


def _print(table: Table) -> None:
    print(f"\n## {table.title}\n")
    print("\n".join(table.figures.table(table.beside)), flush=True)
    print(f"\n(load now: {os.getloadavg()[1]:.1f})", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
