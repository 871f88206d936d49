"""apps/two.py with a driver that dies: each that starts takes the first line of OUTPUT-deaths, and dies at
the point that it names (see killer.py). An empty line, or none, is a driver that lives.
"""

import os
import sys
from pathlib import Path

import killer
import two


def next_death(deaths: Path) -> str:
    first, *rest = deaths.read_text().splitlines() or [""]
    deaths.write_text("".join(f"{line}\n" for line in rest))
    return first


if __name__ == "__main__":
    output = sys.argv[1]
    os.environ["KILL"] = next_death(Path(f"{output}-deaths"))
    killer.install("sums")
    two.main(output, killer.Deadly)
