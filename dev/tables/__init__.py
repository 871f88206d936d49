"""Delta Lake, Apache Iceberg and Apache Hudi for tests: their jars for each line of Spark."""

from __future__ import annotations

from collections.abc import Collection

import pyspark

from dev.cluster.layout import cache_folder

LINE = ".".join(pyspark.__version__.split(".")[:2])
FORMATS = {
    "3.5": ("delta", "iceberg", "hudi"),
    "4.0": ("delta", "iceberg"),
    "4.1": ("delta", "iceberg"),
    "4.2": ("delta",),
}  # those that exist for a line of Spark


def formats() -> tuple[str, ...]:
    """Those that exist for this Spark."""
    return FORMATS.get(LINE, ())


def together() -> list[tuple[str, ...]]:
    """The same, by those that one session can have: Delta and Hudi both replace Spark's own catalog."""
    others = tuple(form for form in formats() if form != "hudi")
    return [those for those in (others, ("hudi",)) if set(those) & set(formats())]


def jars(those: Collection[str]) -> str:
    """For spark.jars.

    :param those: formats, as in `together`.
    :raises FileNotFoundError: they are missing.
    """
    folder, step = ("jars-hudi", "hudi") if "hudi" in those else ("jars-tables", "servers")
    found = sorted(map(str, (cache_folder() / folder / LINE).glob("*.jar")))
    if not found:
        raise FileNotFoundError(f"no {', '.join(those)} for Spark {LINE}: run dev/bootstrap.sh {step}")
    return ",".join(found)
