"""What the driver is told at its start, and the Spark configuration that follows from it."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...protocol import codec
from ...protocol import index as indices
from ...protocol.errors import FormatError, StreamJobError
from ...protocol.messages import CONTROL_PORT, DriverConfig
from ...protocol.records import CheckpointRecord
from ..jvm import class_archive

VARIABLE = "STREAMJOB_CONFIG"
SECRETS, PORT, TERMINATION_LOG = "STREAMJOB_SECRETS", "STREAMJOB_PORT", "STREAMJOB_TERMINATION_LOG"
INDEX = "STREAMJOB_INDEX"
INDEX_WAIT = 120.0  # seconds for the kubelet to bring a mounted ConfigMap up to date; it looks once a minute
INDEX_LIMIT = 1 << 20  # bytes of a ConfigMap


class NotConfigured(StreamJobError):
    """Not inside a driver pod, or the pod was not made by the controller."""

    reason = "DriverNotConfigured"


class CheckpointNotMounted(StreamJobError):
    """The index in the pod does not have the checkpoint that the driver is to go on from."""

    reason = "CheckpointNotMounted"
    retryable = True


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
    """The variable has all but the stages of the latest checkpoint, which may be too large for one: they are in the index, which
    is mounted.

    :raises NotConfigured: the variable is missing or malformed.
    :raises CheckpointNotMounted: the index does not have that checkpoint, or is not there.
    """
    text = environment.get(VARIABLE)
    if text is None:
        raise NotConfigured(
            f"the environment variable {VARIABLE} is not set",
            remedy="Let the StreamJob controller start this driver: kubectl apply a StreamJob",
        )
    try:
        config = codec.loads(DriverConfig, text)
    except FormatError as e:
        raise NotConfigured(
            f"{VARIABLE}: {e.message}", remedy="Use the runtime of the controller's version"
        ) from None
    index = Path(environment.get(INDEX, f"/var/run/streamjob-index/{indices.KEY}"))
    deadline = time.monotonic() + INDEX_WAIT
    while True:
        try:
            return with_stages(config, index.read_text() if index.exists() else "")
        except CheckpointNotMounted:
            if time.monotonic() >= deadline:
                raise
        time.sleep(1.0)


def with_stages(config: DriverConfig, index: str) -> DriverConfig:
    """The configuration with all of the latest checkpoint. :raises CheckpointNotMounted:"""
    latest = config.restore.latest
    if latest is None or latest.stages:
        return config
    try:
        documents = codec.parse(index, "the index", INDEX_LIMIT)["checkpoints"]
        # Of the others the format need not be known.
        (document,) = (d for d in documents if d["checkpoint"] == latest.checkpoint)
        found = codec.from_plain(CheckpointRecord, document)
    except (FormatError, LookupError, TypeError, ValueError) as e:
        raise _not_mounted(latest, str(e)) from None
    if replace(found, stages=()) != latest:
        raise _not_mounted(latest, "the index has another one of this number")
    return replace(config, restore=replace(config.restore, latest=found))


def _not_mounted(latest: CheckpointRecord, why: str) -> CheckpointNotMounted:
    return CheckpointNotMounted(
        f"checkpoint {latest.checkpoint} of epoch {latest.epoch} is not in the index in this pod ({why})",
        remedy="See whether the ConfigMap of the index has been deleted or changed",
    )


def forget(environment: MutableMapping[str, str]) -> None:
    """Take out what `load` and `Place.of` have read, before the JVM inherits it: the JVM starts dozens of processes a batch on a
    volume (Hadoop's `chmod`, `readlink`), each with a copy."""
    for variable in (VARIABLE, INDEX, SECRETS, PORT, TERMINATION_LOG):
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
    settings = {"spark.ui.showConsoleProgress": "false", **class_archive.settings(), **config.spark_conf}
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
    given = os.environ.get(class_archive.SUBMIT_ARGUMENTS, "pyspark-shell")
    # Not as SPARK_CONF_DIR: that would hide the image's own files, and be another class path each time (see `class_archive`).
    os.environ[class_archive.SUBMIT_ARGUMENTS] = f"--properties-file {file} --load-spark-defaults {given}"


def _one_line(key: str, value: str) -> str:
    # A java.util.Properties file: a line break would end the value and begin another setting.
    if "\n" in value or "\r" in value:
        raise NotConfigured(
            f"spark configuration {key} holds a line break", remedy="Take it out of spec.sparkConf"
        )
    return value.replace("\\", "\\\\")
