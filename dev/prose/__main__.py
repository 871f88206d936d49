"""Check the prose that people read: docs, docstrings and comments. Builds Vale, the prose linter, once.

python -m dev.prose            everything
python -m dev.prose docs       these files and folders
"""

import subprocess
import sys

from dev.cluster.build import go_program
from dev.cluster.layout import REPOSITORY

VERSION = "3.21.0"
PROSE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs", "examples", "operator")


def main(places: list[str]) -> int:
    vale = go_program("vale", VERSION, "github.com/vale-cli/vale/v3/cmd/vale", cgo=True)
    command = [str(vale), "--config", str(REPOSITORY / ".vale.ini"), "--output", "line", *(places or PROSE)]
    return subprocess.run(command, cwd=REPOSITORY, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
