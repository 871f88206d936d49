"""A runtime that the operator mounts into the pods, as an archive that Python imports from."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark import SparkContext

VARIABLE = "PYTHONPATH"


def archive() -> Path | None:
    """The archive that this runtime was imported from; None if it is installed as files."""
    place = Path(__file__).parents[4]
    return place if place.is_file() else None


def lend_to_workers(context: SparkContext) -> None:
    """Put the archive on the module search path of the executors' Python workers.

    Spark adds these variables to those of the executor. In the executor's pod the variable would hide the one
    of the image. The archive is at the same path in every pod of the job.
    """
    found = archive()
    if found is not None:
        given = context.environment.get(VARIABLE)
        context.environment[VARIABLE] = os.pathsep.join([str(found), *([given] if given else [])])
