"""The driver's configuration at its start, and the Spark configuration derived from it."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import tempfile
import time
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path

from ...jvm import class_archive, full_heap, spark_defaults
from ...protocol.errors import FormatError, StreamJobError
from ...protocol.formats import codec
from ...protocol.formats import index as indices
from ...protocol.formats.records import CheckpointRecord
from ...protocol.messages.commands import CONTROL_PORT, METRICS_PORT
from ...protocol.messages.driver_config import DriverConfig

VARIABLE = "STREAMJOB_CONFIG"
SECRETS, TERMINATION_LOG = "STREAMJOB_SECRETS", "STREAMJOB_TERMINATION_LOG"
PORT, PORT_OF_METRICS = "STREAMJOB_PORT", "STREAMJOB_METRICS_PORT"
INDEX = "STREAMJOB_INDEX"
PROPERTIES = "--properties-file"
OWN = (VARIABLE, INDEX, SECRETS, PORT, PORT_OF_METRICS, TERMINATION_LOG)
INDEX_WAIT = 120.0  # seconds for the kubelet to update a mounted ConfigMap, which it checks once a minute
INDEX_LIMIT = 1 << 20  # bytes, the limit of a ConfigMap


class NotConfigured(StreamJobError):
    """The process does not run in a driver pod of the controller, or its configuration is invalid."""

    reason = "DriverNotConfigured"


class CheckpointNotMounted(StreamJobError):
    """The index mounted in the pod does not have the checkpoint that the driver resumes from."""

    reason = "CheckpointNotMounted"
    retryable = True


@dataclass(frozen=True)
class DriverPaths:
    """The driver's paths and ports. Tests and benchmarks run several drivers side by side and set others."""

    secrets: Path
    port: int
    metrics_port: int
    termination_log: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> DriverPaths:
        return cls(
            secrets=Path(environment.get(SECRETS, "/var/run/streamjob")),
            port=int(environment.get(PORT, str(CONTROL_PORT))),
            metrics_port=int(environment.get(PORT_OF_METRICS, str(METRICS_PORT))),
            termination_log=Path(environment.get(TERMINATION_LOG, "/dev/termination-log")),
        )


@dataclass(frozen=True)
class Credentials:
    """Credentials of the control endpoint.

    They come from files of the job's Secret, never from the environment, which `ps e` shows.
    """

    token: str
    certificate: Path
    key: Path


def load(environment: Mapping[str, str]) -> DriverConfig:
    """Read the configuration from the variable STREAMJOB_CONFIG and the mounted index.

    The stages of the latest checkpoint may be too large for a variable, so they are read from the index. The
    kubelet may mount an old copy of the index: wait up to INDEX_WAIT seconds until it has the checkpoint.

    :raises NotConfigured: the variable is missing or malformed.
    :raises CheckpointNotMounted: the index is missing or does not have that checkpoint.
    """
    config = parse(environment)
    index = Path(environment.get(INDEX, f"/var/run/streamjob-index/{indices.KEY}"))
    deadline = time.monotonic() + INDEX_WAIT
    while True:
        try:
            return with_stages(config, index.read_text() if index.exists() else "")
        except CheckpointNotMounted:
            if time.monotonic() >= deadline:
                raise
        time.sleep(1.0)


def parse(environment: Mapping[str, str]) -> DriverConfig:
    """Read the configuration from the variable alone: without the stages of the latest checkpoint.

    :raises NotConfigured: the variable is missing or malformed.
    """
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


def with_stages(config: DriverConfig, index: str) -> DriverConfig:
    """The configuration with the complete record of the latest checkpoint.

    :param index: the text of the index, empty if there is none.
    :raises CheckpointNotMounted: the index does not have that checkpoint.
    """
    latest = config.restore.latest
    if latest is None or latest.stages:
        return config
    try:
        documents = codec.parse(index, "the index", INDEX_LIMIT)["checkpoints"]
        # Only this record is parsed: the others may have an unknown format.
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
    """Remove the variables that `load` and `DriverPaths.of` read, so that the JVM does not inherit them.

    On a volume, the JVM starts dozens of processes per batch (Hadoop's `chmod`, `readlink`), each with a copy
    of the environment.
    """
    for variable in OWN:
        environment.pop(variable, None)


def of_laptop() -> dict[str, str]:
    """Spark's settings in local mode."""
    # Spark's default of 200 partitions suits a cluster. On a laptop, each costs a state store and a file.
    return {"spark.master": "local[*]", "spark.sql.shuffle.partitions": str(os.cpu_count() or 2)}


def credentials(folder: Path) -> Credentials:
    """The credentials in the folder of the mounted Secret.

    :raises NotConfigured: the job's Secret is not mounted.
    """
    token = folder / "token"
    if not token.exists():
        raise NotConfigured(f"{token} does not exist", remedy="Mount the job's control Secret there")
    return Credentials(token.read_text().strip(), folder / "tls.crt", folder / "tls.key")


def write_spark_properties(
    spark_conf: Mapping[str, str], executor_template: str | None, environment: Mapping[str, str]
) -> Path:
    """Write the image's and the job's Spark settings to a properties file in a new folder.

    Settings made by the script take precedence over this file; in it, the job's settings take precedence over
    those of the image's own spark-defaults.conf and of the file that its PYSPARK_SUBMIT_ARGS name.

    :param executor_template: as in `DriverConfig`.
    :returns: the path of the file.
    :raises NotConfigured: a setting contains a line break, or the file of PYSPARK_SUBMIT_ARGS cannot be read.
    """
    folder = Path(tempfile.mkdtemp(prefix="streamjob-conf-"))
    # Progress bars need a terminal, which the log of a pod is not.
    settings = {"spark.ui.showConsoleProgress": "false", **class_archive.settings(), **spark_conf}
    if "POD_IP" in environment:
        # Executors call back to the pod's own address: no Service is needed in client mode.
        settings.setdefault("spark.driver.host", environment["POD_IP"])
        # From Spark 4.3 on, executors connect to the address that the driver binds to.
        settings.setdefault("spark.driver.bindAddress", environment["POD_IP"])
    if executor_template is not None:
        template = folder / "executor.json"
        template.write_text(executor_template)
        settings["spark.kubernetes.executor.podTemplateFile"] = str(template)
    # Of two lines for one key, the later one counts. An empty line ends a value that a file continues.
    lines = [spark_defaults.read(environment), "", *_own_file(environment)]
    lines += [f"{key} {_one_line(key, value)}" for key, value in sorted(settings.items())]
    file = folder / "spark.properties"
    file.write_text("\n".join(lines) + "\n")
    return file


def adopt_spark_properties(spark_conf: Mapping[str, str], executor_template: str | None) -> Path:
    """Make Spark start with the job's settings in this process.

    The folder of the properties file is deleted at the exit of this process. Call this before
    `exit.Exit` is created: of two atexit handlers, the one that is registered first is called last, and
    `Exit` stops Spark.

    :returns: that folder.
    :raises NotConfigured: as `write_spark_properties`.
    """
    written = write_spark_properties(spark_conf, executor_template, os.environ)
    atexit.register(_delete, written.parent, os.getpid())
    file = shlex.quote(str(written))
    given = shlex.join(_arguments(os.environ)[1])
    # SPARK_CONF_DIR would hide the image's own files. It would also change the class path at every start, so
    # that the class archive would not fit (see `class_archive`).
    os.environ[class_archive.SUBMIT_ARGUMENTS] = f"{PROPERTIES} {file} {given}"
    # No setting: it would take the place of the same one of the image, the job or the script.
    os.environ[full_heap.SUBMIT_OPTIONS] = full_heap.submit_options(
        os.environ.get(full_heap.SUBMIT_OPTIONS, "")
    )
    return written.parent


def _arguments(environment: Mapping[str, str]) -> tuple[str | None, list[str]]:
    """The arguments of PYSPARK_SUBMIT_ARGS: its properties file, and all others.

    Of two properties files, spark-submit reads only the last one.
    """
    given = shlex.split(environment.get(class_archive.SUBMIT_ARGUMENTS, "pyspark-shell"))
    file, others = None, []
    while given:
        word = given.pop(0)
        option, equals, value = word.partition("=")
        if option != PROPERTIES:
            others.append(word)
        elif equals or given:
            file = value if equals else given.pop(0)
    return file, others


def _own_file(environment: Mapping[str, str]) -> list[str]:
    """The settings in the properties file that PYSPARK_SUBMIT_ARGS name.

    :raises NotConfigured: it cannot be read.
    """
    file, _ = _arguments(environment)
    if file is None:
        return []
    try:
        return [Path(file).read_text(), ""]
    except (OSError, ValueError) as e:
        raise NotConfigured(
            f"PYSPARK_SUBMIT_ARGS names the properties file {file}, which cannot be read: {e}",
            remedy="Correct the variable, or put its settings into spec.sparkConf",
        ) from None


def _delete(folder: Path, process: int) -> None:
    """Delete the folder of the properties file, unless this is a forked child of `process`."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _one_line(key: str, value: str) -> str:
    # In a java.util.Properties file, a line break ends the value and begins another setting.
    if "\n" in value or "\r" in value:
        raise NotConfigured(
            f"spark configuration {key} holds a line break", remedy="Remove it from spec.sparkConf"
        )
    return value.replace("\\", "\\\\")
