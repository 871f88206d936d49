"""The image's own Spark configuration.

Spark 3.5 ignores it where a driver has a properties file, and has no `--load-spark-defaults` yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .spark_home import spark_home


def read(environment: Mapping[str, str]) -> str:
    """The content of `spark-defaults.conf`, empty if there is none.

    :param environment: variables that say where spark-submit looks for it.
    :raises OSError: it cannot be read.
    """
    home, named = spark_home(), environment.get("SPARK_CONF_DIR")
    folder = Path(named) if named else home / "conf" if home is not None else None
    file = None if folder is None else folder / "spark-defaults.conf"
    return file.read_text(encoding="utf-8") if file is not None and file.is_file() else ""
