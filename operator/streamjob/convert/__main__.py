"""`python -m streamjob.convert` is `streamjob convert`."""

from __future__ import annotations

import sys

from .cli import convert

if __name__ == "__main__":
    sys.exit(convert(sys.argv[1:]))
