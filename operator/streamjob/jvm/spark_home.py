"""Spark's folder."""

from __future__ import annotations

import importlib.util
import os
from functools import lru_cache
from pathlib import Path


def spark_home() -> Path | None:
    """Find Spark's folder as pyspark does it, by its own module, without importing the rest of pyspark, which
    takes half a second.

    :returns: None if there is none; then the module has printed where it looked, once.
    """
    return _find(os.environ.get("SPARK_HOME"))


@lru_cache(maxsize=1)
def _find(_named: str | None) -> Path | None:
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        return None
    file = Path(package.origin).with_name("find_spark_home.py")
    spec = importlib.util.spec_from_file_location("_streamjob_find_spark_home", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return Path(module._find_spark_home())
    except SystemExit:  # it has found none
        return None
