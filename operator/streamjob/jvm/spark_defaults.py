"""The image's own Spark configuration.

Spark 3.5 ignores it where a driver has a properties file, and has no `--load-spark-defaults` yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read(environment: Mapping[str, str]) -> str:
    """The content of `spark-defaults.conf`, empty if there is none.

    :param environment: variables that say where spark-submit looks for it.
    :raises OSError: it cannot be read.
    """
    from pyspark.find_spark_home import _find_spark_home  # noqa: PLC0415  imports pyspark

    find: Any = _find_spark_home  # untyped
    folder = environment.get("SPARK_CONF_DIR") or Path(find()) / "conf"
    file = Path(folder) / "spark-defaults.conf"
    return file.read_text(encoding="utf-8") if file.is_file() else ""
