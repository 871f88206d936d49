"""Refuses an image that cannot run a job, before anything fails less clearly."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pyspark

from ....jvm.spark_home import spark_home
from ....protocol.errors import StreamJobError
from ...spark.versions.table import known, line
from .. import config, termination_log


class JavaMissing(StreamJobError):
    reason = "JavaMissing"


class JavaTooOld(StreamJobError):
    reason = "JavaTooOld"


class SparkMissing(StreamJobError):
    """There is pyspark, and not the Spark that it needs."""

    reason = "SparkMissing"


class PysparkMismatch(StreamJobError):
    """pyspark and Spark's jars are of two versions: they do not understand each other."""

    reason = "PysparkMismatch"


def refuse_image(*, in_pod: bool) -> None:
    """Check Spark, pyspark and Java, by their files alone.

    :param in_pod: leave a final report.
    :raises StreamJobError: one of them is missing, too old, or does not fit the others.
    """
    try:
        known(pyspark.__version__)
        home = spark_home()
        refuse_spark(pyspark.__version__, home)
        if home is None or not has_own_environment(home, os.environ):
            refuse_java(pyspark.__version__, os.environ)
    except StreamJobError as e:
        if in_pod:
            place = config.DriverPaths.of(os.environ)
            # Without the index, for which the driver might have to wait.
            termination_log.write_refusal(config.parse(os.environ), e, place.termination_log)
        raise


def refuse_spark(version: str, home: Path | None) -> None:
    """Check that Spark's jars are there, and of pyspark's version.

    :param version: pyspark's.
    :param home: Spark's folder; None if there is none.
    :raises SparkMissing: there are no jars.
    :raises PysparkMismatch: they are of another major.minor.
    """
    jars = sorted(home.glob("jars/spark-core_*.jar")) if home is not None else []
    if not jars:
        where = f"{home}/jars has no spark-core" if home is not None else "SPARK_HOME is not set"
        raise SparkMissing(
            f"<image> has pyspark {version}, but not Spark itself: {where}",
            remedy="<Image-with> Spark, or install the package pyspark (not pyspark-client) and unset "
            "SPARK_HOME",
        )
    found = jars[0].stem.partition("-")[2].partition("-")[2]  # spark-core_2.13-4.1.4
    if line(found) != line(version):
        raise PysparkMismatch(
            f"<image> has pyspark {version}, and {home} has Spark {found}",
            remedy="Install the pyspark of that Spark, or correct SPARK_HOME or PYTHONPATH",
        )


def has_own_environment(home: Path, environment: Mapping[str, str]) -> bool:
    """Whether Spark runs a script before it looks for Java, which may set JAVA_HOME.

    :param home: Spark's folder.
    """
    return Path(environment.get("SPARK_CONF_DIR") or home / "conf", "spark-env.sh").is_file()


def refuse_java(version: str, environment: Mapping[str, str]) -> None:
    """Check that Spark finds a Java that it can run on.

    :param version: Spark's.
    :raises JavaMissing: it finds none.
    :raises JavaTooOld: it says that it is too old. A Java that does not say its version is not refused.
    """
    needed = known(version).java
    remedy = f"<Image-with> Java {needed} or newer, or set JAVA_HOME to its folder"
    home = environment.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java") if home else shutil.which("java", path=environment.get("PATH"))
    if java is None:
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "java is not on the PATH"
        raise JavaMissing(f"<image> has no Java: {where}", remedy=remedy)
    notes = Path(java).resolve().parents[1] / "release"
    said = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', notes.read_text()) if notes.is_file() else None
    if said is not None and int(said[1]) < needed:
        raise JavaTooOld(f"<image> has Java {said[1]}, and Spark {version} needs {needed}", remedy=remedy)
