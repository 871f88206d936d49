"""apps/sums.py, which can be held up at two places.

It is held while a file is there, and makes another one when it is.

held.py OUTPUT HOLD

While HOLD.rows is there, each row of the output waits, and so does the batch. While HOLD.finish is there, so
does the query's finish().
"""

import sys
import time
from pathlib import Path

import sums

from streamjob import job


def wait(file: str) -> None:
    while Path(file).exists():
        Path(f"{file}.reached").touch()
        time.sleep(0.1)


def main(output: str, hold: str) -> None:
    job.on_finish("sums")(lambda: wait(f"{hold}.finish"))
    sums.main(output, hold=f"{hold}.rows")


if __name__ == "__main__":
    main(*sys.argv[1:])
