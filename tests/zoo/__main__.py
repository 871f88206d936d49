"""Run scripts of the zoo: see the package's docstring."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from . import header, ways


def main() -> int:
    p = argparse.ArgumentParser(
        prog="python -m tests.zoo", description="Run a script of the zoo in the five ways."
    )
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--way", choices=header.WAYS, action="append", help="by default each that applies")
    p.add_argument("--seed", type=int, default=1, help="of the input and of the moments when it is ended")
    p.add_argument("--keep", type=Path, metavar="DIR", help="leave input, output, state and logs there")
    p.add_argument("--list", action="store_true", help="name the scripts, what they show, and their ways")
    options = p.parse_args()
    if options.list or not options.names:
        for name in header.names():
            script = header.load(name)
            print(f"{name:28} {', '.join(script.ways)}\n    {script.shows}")
            for way, why in script.excluded.items():
                print(f"    not {way}: {why}")
        return 0
    failed = 0
    for name in options.names:
        for way in header.load(name).ways:
            if options.way and way not in options.way:
                continue
            began = time.monotonic()
            problems = ways.go(name, way, options.seed, options.keep)
            seconds = time.monotonic() - began
            print(f"{name:28} {way:8} {seconds:5.1f} s  {'ok' if not problems else 'FAILED'}", flush=True)
            for problem in problems:
                print("    " + problem.replace("\n", "\n    "), flush=True)
            failed += bool(problems)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
