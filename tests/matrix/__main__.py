"""Run one case of the matrix, or list them."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from dev.broker import Kafka

from . import __doc__ as about
from . import ends
from .cases import CASES
from .sources import Sources


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.matrix", description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("case", nargs="?", choices=[str(c) for c in CASES], metavar="CASE")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (default: 1)")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="leave everything there")
    given = parser.parse_args()
    if given.case is None:
        print("\n".join(map(str, CASES)))
        return 0
    case = next(c for c in CASES if str(c) == given.case)
    folder = given.keep or Path(tempfile.mkdtemp(prefix="matrix-"))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    broker = Kafka(folder / "kafka") if case.group == "kafka" else None
    try:
        problems = ends.go(Sources(folder / str(case), case, broker), case, given.seed)
    finally:
        if broker:
            broker.stop()
        if given.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    print("\n".join(problems) or "nothing missing, nothing twice")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
