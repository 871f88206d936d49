"""The command behind `make bench`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

from dev.bench import checkpoints, endings, patches, protocol, savepoint, savepoint_s3, scale, throughput
from dev.bench.figures import Figures

HELP = """Measure StreamJob on this machine and print Markdown tables (seconds unless said otherwise).

examples:
  make bench                                    everything, about an hour
  python -m dev.bench --only endings --runs 3   stop, drain and resume at 1,000 and 1,000,000 keys
  python -m dev.bench --only savepoint --size 1 savepoints beside cp -r and sync, GB of state
  python -m dev.bench --only savepoint-s3       the same on S3, copied by the server and through the driver
  python -m dev.bench --only savepoint --only savepoint-s3    both in one run
  python -m dev.bench --only checkpoints        job-wide checkpoints of 1, 4 and 16 queries, the pause they feel
  python -m dev.bench --only protocol           the engine alone, events in a second
  python -m dev.bench --only patch              needs the cluster: make cluster
  python -m dev.bench --only scale --jobs 5000  one controller, many jobs; needs KUBECONFIG of the local cluster with the CRD
"""
PARTS = ("endings", "savepoint", "savepoint-s3", "throughput", "checkpoints", "protocol", "patch")
NEEDS_ASKING = ("scale",)  # an API server that is there already


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m dev.bench", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=PARTS + NEEDS_ASKING, action="append", help="one part, or several")
    parser.add_argument("--runs", type=int, default=5, help="samples of each figure (default 5)")
    parser.add_argument("--keys", type=int, action="append", help="keys of state (default 1000 and 1000000)")
    parser.add_argument(
        "--size",
        type=float,
        action="append",
        help="GB of a savepoint (default 0.1, 1 and 10)",
    )
    parser.add_argument("--jobs", type=int, action="append", help="StreamJobs (default 100 and 1000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all samples there")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what was made is taken away then too
    parts = arguments.only or list(PARTS)
    results: dict[str, Figures] = {}
    for part in parts:
        if part == "endings":
            for keys in arguments.keys or (1_000, 1_000_000):
                results[f"{keys:,} keys, RocksDB with changelog"] = figures = endings.measure(
                    keys, arguments.runs
                )
                _table(f"{keys:,} keys, RocksDB with changelog", figures, endings.FLINK.get(keys, {}))
        elif part in ("savepoint", "savepoint-s3"):
            where, how = (" on S3", savepoint_s3) if part == "savepoint-s3" else ("", savepoint)
            for size in arguments.size or (0.1, 1.0, 10.0):
                title = f"savepoint of {size:g} GB{where}"
                if (lacks := savepoint.lacks_room(int(size * 1e9), how.COPIES)) is not None:
                    print(f"  {title}: left out, {lacks}", flush=True)
                    continue
                results[title] = figures = how.measure(int(size * 1e9), arguments.runs)
                _table(title, figures, {})
        elif part == "throughput":
            results["throughput"] = figures = throughput.measure(arguments.runs)
            _table("throughput", figures, {})
        elif part == "checkpoints":
            for queries in (1, 4, 16):
                results[f"checkpoints of {queries} queries"] = figures = checkpoints.measure(
                    queries, arguments.runs
                )
                _table(f"job-wide checkpoints, {queries} queries", figures, {})
        elif part == "protocol":
            results["protocol"] = figures = protocol.measure(arguments.runs)
            _table("the protocol engine (events/s)", figures, {})
        elif part == "scale":
            for size in arguments.jobs or (100, 1_000):
                title = f"one controller, {size:,} StreamJobs"
                results[title] = figures = scale.measure(size)
                _table(title, figures, {})
        else:
            results["patch"] = figures = patches.measure(max(arguments.runs, 10))
            _table("kubectl patch to driver (real cluster)", figures, {})
    if arguments.json:
        arguments.json.write_text(json.dumps({name: f.samples for name, f in results.items()}, indent=1))
    return 0


def _table(title: str, figures: Figures, flink: dict[str, str]) -> None:
    print(
        f"\n## {title}\n\n| figure | samples | min / median / max | Flink 2.3.0 |\n|---|---|---|---|",
        flush=True,
    )
    print("\n".join(figures.rows(flink)), flush=True)
    print(f"\n(load before: {os.getloadavg()[1]:.1f})", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
