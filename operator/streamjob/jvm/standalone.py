"""A JVM with Spark's and Hadoop's classes but without a Spark session, to access files when no job runs.

It starts in about five seconds (a session takes twice as long), opens only py4j's port on the loopback
device, and ends with this process. The settings of `spark-defaults.conf` for file systems and jars apply.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any, ClassVar

from pyspark import SparkContext, java_gateway
from pyspark.errors import PySparkException

from ..protocol.errors import StreamJobError
from . import class_archive, numpy_converters
from .errors import first_line
from .process import JvmDied

MEMORY = "256m"
ENDS_WITHIN = 5.0  # seconds
CHATTER = ("WARNING: ", "NOTE: ", "Picked up ")  # prefixes of harmless lines in a JVM's output


class NoJvm(StreamJobError):
    reason: ClassVar[str] = "JvmNotStarted"


def of_storage(conf: Mapping[str, str]) -> dict[str, str]:
    """The settings of a job that a `SmallJvm` needs to access its files."""
    return {key: value for key, value in conf.items() if key.startswith(("spark.hadoop.", "spark.jars"))}


class Jvm:
    """A JVM without a Spark session, or before its first one. `HadoopFiles` accepts it instead of a session.

    :param gateway: py4j's gateway to it.
    """

    def __init__(self, gateway: Any) -> None:
        self.gateway = gateway
        self.jvm: Any = gateway.jvm

    def hadoop_conf(self) -> Any:
        """A session's Hadoop Configuration: `spark.hadoop.*`, and S3 credentials from the environment."""
        spark = self.jvm.org.apache.spark
        return spark.deploy.SparkHadoopUtil.get().newConfiguration(spark.SparkConf())


def of_driver() -> Jvm:
    """The JVM that the script's sessions use. It starts now, unless it runs already.

    Its settings come from PYSPARK_SUBMIT_ARGS: what the script sets for the JVM itself comes too late.

    :raises JvmDied: it does not start.
    """
    try:
        SparkContext._ensure_initialized()
    except (PySparkException, OSError) as e:
        raise JvmDied(
            f"the driver's JVM does not start: {first_line(str(e))}", remedy="See the driver's log"
        ) from None
    return Jvm(SparkContext._gateway)


class _OfContext(Jvm):
    """The JVM of a SparkContext of the script's.

    :param context: the JavaSparkContext.
    """

    def __init__(self, gateway: Any, context: Any) -> None:
        super().__init__(gateway)
        self._context = context

    def hadoop_conf(self) -> Any:
        return self.jvm.org.apache.hadoop.conf.Configuration(self._context.hadoopConfiguration())


def beside_the_script(settings: Mapping[str, str]) -> Jvm:
    """A JVM to access files with, for a job whose script has not come to its first query.

    It is the script's JVM if that runs already, and otherwise one of our own. No session is made, and no JVM
    that pyspark knows of: the script may still make its own, with settings of its own.

    :param settings: Spark configuration of a JVM of our own.
    :raises NoJvm: as `SmallJvm`.
    """
    gateway = SparkContext._gateway
    if gateway is None:
        return SmallJvm(settings)
    # It is the active one before it has its other half.
    context = getattr(SparkContext._active_spark_context, "_jsc", None)
    return Jvm(gateway) if context is None else _OfContext(gateway, context)


class SmallJvm(Jvm):
    """A JVM that the constructor starts and `close()` ends.

    :param settings: Spark configuration. It is visible in `ps`, so put secrets into spark-defaults.conf.
    :raises NoJvm: there is no Java, or it exited immediately.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        numpy_converters.ask_of_numpy_values_only()
        options = {"spark.driver.memory": MEMORY, **class_archive.settings(), **settings}
        words = [word for key, value in options.items() for word in ("--conf", f"{key}={value}")]
        # While pyspark starts the script's JVM, with the same variable, it holds this lock.
        with SparkContext._lock, tempfile.TemporaryFile() as said:
            before = os.environ.get(class_archive.SUBMIT_ARGUMENTS)
            os.environ[class_archive.SUBMIT_ARGUMENTS] = shlex.join([*words, "pyspark-shell"])
            try:
                launch: Any = java_gateway.launch_gateway  # untyped
                super().__init__(launch(popen_kwargs={"stdout": subprocess.DEVNULL, "stderr": said}))
            except (PySparkException, OSError) as e:
                said.seek(0)
                lines = said.read().decode(errors="replace").splitlines()
                why = "\n".join(line for line in lines if not line.startswith(CHATTER))
                words_of_java = first_line(why) or first_line(str(e))
                raise NoJvm(
                    f"Java did not start: {words_of_java}", remedy="Install Java 17, or set JAVA_HOME"
                ) from None
            finally:
                if before is None:
                    del os.environ[class_archive.SUBMIT_ARGUMENTS]
                else:
                    os.environ[class_archive.SUBMIT_ARGUMENTS] = before

    @property
    def has_ended(self) -> bool:
        return self.gateway.proc.poll() is not None

    def close(self) -> None:
        """End it. To close its pipe is not enough: a process that was forked meanwhile holds that, too."""
        self.gateway.shutdown()
        process: subprocess.Popen[bytes] = self.gateway.proc
        process.terminate()
        try:
            process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
