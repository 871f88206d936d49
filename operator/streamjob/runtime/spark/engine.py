"""What all queries of one Spark session share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...storage.hadoop import HadoopFiles
from .internals import Internals


@dataclass(frozen=True)
class Engine:
    """What all runs of one Spark session share."""

    files: HadoopFiles
    internals: Internals
    jvm: Any
