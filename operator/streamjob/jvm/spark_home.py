"""Spark's folder, and how one knows that a JVM which its launcher has started is up."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import time
from functools import lru_cache
from pathlib import Path

CONNECTION = "_PYSPARK_DRIVER_CONN_INFO_PATH"  # the file in which the JVM says where it listens
CLASSIC = "SPARK_CONNECT_MODE"  # "0" from Spark 4.0 on; older ones do not know it
LOOK = 0.01  # seconds between two looks for that file


def comes_up(process: subprocess.Popen[bytes], connection: Path) -> bool:
    """Wait until a JVM has said where it listens.

    :param connection: the file in which it says that.
    :returns: False if it has ended.
    """
    while process.poll() is None and not connection.exists():
        time.sleep(LOOK)
    return process.poll() is None


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
