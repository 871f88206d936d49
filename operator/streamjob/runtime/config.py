"""What the driver is told at its start, and the Spark configuration that follows from it."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path

from ..protocol import codec
from ..protocol.errors import FormatError, StreamJobError
from ..protocol.messages import CONTROL_PORT, DriverConfig
from . import classes

VARIABLE = "STREAMJOB_CONFIG"
SECRETS, PORT, TERMINATION_LOG = "STREAMJOB_SECRETS", "STREAMJOB_PORT", "STREAMJOB_TERMINATION_LOG"


class NotConfigured(StreamJobError):
    """Not inside a driver pod, or the pod was not made by the controller."""

    reason = "DriverNotConfigured"


@dataclass(frozen=True)
class Place:
    """Where things are in the pod. Tests and benchmarks run drivers beside each other, and say other places."""

    secrets: Path
    port: int
    termination_log: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Place:
        return cls(
            secrets=Path(environment.get(SECRETS, "/var/run/streamjob")),
            port=int(environment.get(PORT, str(CONTROL_PORT))),
            termination_log=Path(environment.get(TERMINATION_LOG, "/dev/termination-log")),
        )


@dataclass(frozen=True)
class Credentials:
    """Of the control endpoint; from files of the job's Secret, never from the environment (`ps e` shows that)."""

    token: str
    certificate: Path
    key: Path


def load(environment: Mapping[str, str]) -> DriverConfig:
    """:raises NotConfigured: the variable is missing or malformed."""
    text = environment.get(VARIABLE)
    if text is None:
        raise NotConfigured(
            f"the environment variable {VARIABLE} is not set",
            remedy="Let the StreamJob controller start this driver: kubectl apply a StreamJob",
        )
    try:
        return codec.loads(DriverConfig, text)
    except FormatError as e:
        raise NotConfigured(
            f"{VARIABLE}: {e.message}", remedy="Use the runtime of the controller's version"
        ) from None


def forget(environment: MutableMapping[str, str]) -> None:
    """Take out what `load` and `Place.of` have read, before the JVM inherits it: it may be 100 KiB, and the JVM starts dozens of
    processes a batch on a volume (Hadoop's `chmod`, `readlink`), each with a copy."""
    for variable in (VARIABLE, SECRETS, PORT, TERMINATION_LOG):
        environment.pop(variable, None)


def credentials(folder: Path) -> Credentials:
    """:raises NotConfigured: the job's Secret is not mounted."""
    token = folder / "token"
    if not token.exists():
        raise NotConfigured(f"{token} does not exist", remedy="Mount the job's control Secret there")
    return Credentials(token.read_text().strip(), folder / "tls.crt", folder / "tls.key")


def write_spark_properties(config: DriverConfig, environment: Mapping[str, str]) -> Path:
    """The job's settings as a properties file in a new folder. What the script sets itself has precedence, and they have it over
    the image's own spark-defaults.conf."""
    folder = Path(tempfile.mkdtemp(prefix="streamjob-conf-"))
    # Progress bars are for a terminal; a pod's log is none.
    settings = {"spark.ui.showConsoleProgress": "false", **classes.settings(), **config.spark_conf}
    if "POD_IP" in environment:
        # Executors call back to the pod's own address: no Service is needed in client mode.
        settings.setdefault("spark.driver.host", environment["POD_IP"])
        settings.setdefault("spark.driver.bindAddress", "0.0.0.0")  # noqa: S104  the pod's only interface
    if config.executor_template is not None:
        template = folder / "executor.json"
        template.write_text(config.executor_template)
        settings["spark.kubernetes.executor.podTemplateFile"] = str(template)
    lines = [f"{key} {_one_line(key, value)}" for key, value in sorted(settings.items())]
    file = folder / "spark.properties"
    file.write_text("\n".join(lines) + "\n")
    return file


def adopt_spark_properties(config: DriverConfig) -> None:
    """Make this process' Spark start with the job's configuration."""
    file = shlex.quote(str(write_spark_properties(config, os.environ)))
    given = os.environ.get(classes.SUBMIT_ARGUMENTS, "pyspark-shell")
    # Not as SPARK_CONF_DIR: that would hide the image's own files, and be another class path each time (see `classes`).
    os.environ[classes.SUBMIT_ARGUMENTS] = f"--properties-file {file} --load-spark-defaults {given}"


def _one_line(key: str, value: str) -> str:
    # A java.util.Properties file: a line break would end the value and begin another setting.
    if "\n" in value or "\r" in value:
        raise NotConfigured(
            f"spark configuration {key} holds a line break", remedy="Take it out of spec.sparkConf"
        )
    return value.replace("\\", "\\\\")
