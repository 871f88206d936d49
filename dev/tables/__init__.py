"""Delta Lake and Apache Iceberg for tests: their jars for each line of Spark."""

from __future__ import annotations

import pyspark

from dev.cluster.layout import cache_folder

LINE = ".".join(pyspark.__version__.split(".")[:2])
FORMATS = {
    "3.5": ("delta", "iceberg"),
    "4.0": ("delta", "iceberg"),
    "4.1": ("delta", "iceberg"),
    "4.2": ("delta",),
}  # those that exist for a line of Spark


def formats() -> tuple[str, ...]:
    """Those that exist for this Spark."""
    return FORMATS.get(LINE, ())


def jars() -> str:
    """For spark.jars.

    :raises FileNotFoundError: they are missing.
    """
    found = sorted(map(str, (cache_folder() / "jars-tables" / LINE).glob("*.jar")))
    if not found:
        raise FileNotFoundError(f"no {', '.join(formats())} for Spark {LINE}: run dev/bootstrap.sh servers")
    return ",".join(found)
