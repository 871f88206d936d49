"""A JVM with Spark's and Hadoop's classes but without a Spark session, to access files when no job runs.

It starts in about five seconds (a session takes twice as long), opens only py4j's port on the loopback
device, and ends with this process. The settings of `spark-defaults.conf` for file systems and jars apply.
"""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, ClassVar

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from pyspark import SparkContext
from pyspark.errors import PySparkException

from ..protocol.errors import StreamJobError
from . import class_archive, numpy_converters
from .errors import first_line
from .process import JvmDied
from .spark_home import spark_home

CONNECTION = "_PYSPARK_DRIVER_CONN_INFO_PATH"  # the file in which the JVM says where it listens
CLASSIC = "SPARK_CONNECT_MODE"  # "0" from Spark 4.0 on; older ones do not know it
POLL_SECONDS = 0.01  # seconds between two looks for that file
PINNED = "PYSPARK_PIN_THREAD"  # a variable: whether each thread of Python has one of its own in the JVM
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
        raise JvmDied(f"the driver's JVM does not start: {first_line(str(e))}", remedy="See <log>") from None
    return Jvm(SparkContext._gateway)


class SmallJvm(Jvm):
    """A JVM that the constructor starts and `close()` ends.

    :param settings: Spark configuration. It is visible in `ps`, so put secrets into spark-defaults.conf.
    :raises NoJvm: there is no Java, or it exited immediately.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        numpy_converters.ask_of_numpy_values_only()
        options = {"spark.driver.memory": MEMORY, **class_archive.settings(), **settings}
        words = [word for key, value in options.items() for word in ("--conf", f"{key}={value}")]
        # Not by pyspark's `launch_gateway`, which reads PYSPARK_SUBMIT_ARGS: that is for the script's JVM.
        with tempfile.TemporaryDirectory(prefix="streamjob-jvm-") as folder, tempfile.TemporaryFile() as said:
            connection = Path(folder) / "connection"
            super().__init__(self._started([*words, "pyspark-shell"], connection, said))

    def _started(self, arguments: Sequence[str], connection: Path, said: IO[bytes]) -> Any:
        """A gateway to the JVM, which is `self.process`."""
        try:
            self.process = submit(arguments, os.environ, connection, said)
        except OSError as e:
            raise _no_jvm(str(e)) from None
        try:
            if _comes_up(self.process, connection):
                return _connect(connection.read_bytes())
        except BaseException:  # Ctrl-C, for example
            self.process.kill()
            raise
        said.seek(0)
        lines = said.read().decode(errors="replace").splitlines()
        why = "\n".join(line for line in lines if not line.startswith(CHATTER))
        raise _no_jvm(why or f"it ended with code {self.process.returncode}")

    def close(self) -> None:
        """End it. To close its pipe is not enough: a process that was forked meanwhile holds that, too."""
        self.gateway.shutdown()
        self.process.terminate()
        try:
            self.process.wait(ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def submit(
    arguments: Sequence[str], environment: Mapping[str, str], connection: Path, said: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start a JVM that writes into a file where it listens for py4j, as pyspark's `launch_gateway` does.

    :param said: gets its standard error.
    :raises OSError: there is no Spark, or it cannot be started.
    """
    home = spark_home()
    if home is None:
        raise FileNotFoundError("there is no Spark")
    variables = {CONNECTION: str(connection), PINNED: "true", CLASSIC: "0"}
    return subprocess.Popen(
        [str(home / "bin/spark-submit"), *arguments],
        stdin=subprocess.PIPE,  # the JVM ends when it breaks
        stdout=subprocess.DEVNULL,
        stderr=said,
        env={**environment, **variables},
        start_new_session=True,  # Ctrl-C is not for it
    )


def _comes_up(process: subprocess.Popen[bytes], connection: Path) -> bool:
    """Wait until a JVM has said where it listens.

    :param connection: the file in which it says that.
    :returns: False if it has ended.
    """
    while process.poll() is None and not connection.exists():
        time.sleep(POLL_SECONDS)
    return process.poll() is None


def _connect(connection: bytes) -> Any:
    """A gateway to such a JVM.

    :param connection: what it has written: its port (4 bytes), the length of its secret (4), the secret.
    """
    port, length = struct.unpack_from("!ii", connection)
    secret = connection[8 : 8 + length].decode()
    return ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    )


def _no_jvm(why: str) -> NoJvm:
    return NoJvm(f"Java did not start: {first_line(why)}", remedy="Install Java 17, or set JAVA_HOME")
