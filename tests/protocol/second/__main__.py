"""See the package."""

from __future__ import annotations

import argparse
import sys
import time

from .plan import Scope
from .run import play


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.protocol.second")
    parser.add_argument("--plans", type=int, help="play so many instead of one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scope", type=Scope, default=Scope.ANY, help="any, marked or gentle")
    args = parser.parse_args()
    if args.plans is None:
        failure = play(args.seed, args.scope, say=print)
        print(failure or f"seed {args.seed}: nothing is wrong")
        return int(failure is not None)
    failures, begun = 0, time.monotonic()
    for n in range(args.plans):
        if failure := play(args.seed + n, args.scope):
            failures += 1
            print(failure, flush=True)
        if (n + 1) % 1000 == 0:
            took = time.monotonic() - begun
            print(f"{n + 1} plans, {failures} failures, {took:.0f} s", file=sys.stderr, flush=True)
    print(f"{args.plans} plans from seed {args.seed}: {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
