"""What the driver is told, and the Spark configuration that it makes of it."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from streamjob.protocol.formats import codec
from streamjob.protocol.formats import index as indices
from streamjob.protocol.formats.records import (
    CheckpointRecord,
    JobRef,
    OperatorKind,
    OperatorRecord,
    StageRecord,
    TaskRecord,
)
from streamjob.protocol.lifecycle import Scenario
from streamjob.protocol.messages.driver_config import Application, DriverConfig, Restore
from streamjob.runtime.process import config

CONFIG = DriverConfig(JobRef("ns", "orders", "u-1"), 2, Application(file="/app.py"), "file:///cp")


def test_it_is_read_from_the_environment() -> None:
    assert config.load({config.VARIABLE: codec.dumps(CONFIG)}) == CONFIG


@pytest.mark.parametrize("environment", [{}, {config.VARIABLE: "{"}, {config.VARIABLE: '{"epoch": 1}'}])
def test_what_is_missing_or_malformed_is_named(environment: dict[str, str]) -> None:
    with pytest.raises(config.NotConfigured, match=config.VARIABLE):
        config.load(environment)


def record(number: int = 3, epoch: int = 1, *, stages: bool = True) -> CheckpointRecord:
    task = TaskRecord(0, "file:///cp/main/0", 7)
    stage = StageRecord(
        "main", (task,), (OperatorRecord("main/source-0", OperatorKind.SOURCE, "rate", False),)
    )
    return CheckpointRecord(
        number,
        epoch,
        Scenario.STOP,
        "stop-1-1",
        "file:///sp",
        "2026-01-02T03:04:00Z",
        (stage,) if stages else (),
    )


def index(*records: CheckpointRecord) -> str:
    found = indices.empty("u-1")
    for r in records:
        found = indices.add(found, r)
    return indices.dumps(found)


TOLD = replace(CONFIG, restore=Restore(latest=record(stages=False), exact=True))


def test_the_stages_of_the_latest_checkpoint_come_from_the_index() -> None:
    known = index(record(2), record(3))
    assert config.with_stages(TOLD, known) == replace(CONFIG, restore=Restore(latest=record(3), exact=True))


def test_an_index_of_a_later_format_is_read_as_far_as_it_has_to_be() -> None:
    known = index(record(3)).replace('"version":2', '"version":9,"more":[]')
    assert config.with_stages(TOLD, known).restore.latest == record(3)


def test_what_has_its_stages_needs_no_index() -> None:
    whole = replace(CONFIG, restore=Restore(latest=record()))
    assert config.with_stages(whole, "") == whole
    assert config.with_stages(CONFIG, "") == CONFIG


@pytest.mark.parametrize(
    "found",
    ["", "{", "[]", "{}", index(), index(record(2)), index(record(3, epoch=2)), '{"checkpoints":[7]}'],
)
def test_a_checkpoint_that_the_index_does_not_have_is_named(found: str) -> None:
    with pytest.raises(config.CheckpointNotMounted, match="checkpoint 3 of epoch 1") as error:
        config.with_stages(TOLD, found)
    assert error.value.retryable


def test_an_index_that_the_kubelet_has_not_brought_up_to_date_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It mounts what it has in its cache, and looks again once a minute."""
    file = tmp_path / "index.json"
    brought = iter([index(record(2)), index(record(2), record(3))])
    monkeypatch.setattr(
        "streamjob.runtime.process.config.time.sleep", lambda _: file.write_text(next(brought))
    )
    environment = {config.VARIABLE: codec.dumps(TOLD), config.INDEX: str(file)}
    assert config.load(environment).restore.latest == record(3)


def test_it_is_not_waited_for_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "INDEX_WAIT", 0.0)
    with pytest.raises(config.CheckpointNotMounted):
        config.load({config.VARIABLE: codec.dumps(TOLD), config.INDEX: str(tmp_path / "index.json")})


def test_a_missing_secret_is_named(tmp_path: Path) -> None:
    with pytest.raises(config.NotConfigured, match="token"):
        config.credentials(tmp_path)


def test_spark_is_given_the_jobs_settings_and_the_pods_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.of.image yes\nspark.master yarn\nspark.tail a \\")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    spark_conf = {"spark.master": "local[2]", "spark.x": r"a\b"}
    monkeypatch.setenv("POD_IP", "10.0.0.9")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name mine pyspark-shell")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dof=image")
    config.adopt_spark_properties(spark_conf, "{}")
    assert os.environ["SPARK_SUBMIT_OPTS"] == "-XX:+ExitOnOutOfMemoryError -Dof=image"
    option, file, *rest = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
    assert option == "--properties-file"
    assert rest == ["--name", "mine", "pyspark-shell"]
    lines = Path(file).read_text().splitlines()
    # Of two lines for one key, Java takes the later one; a backslash at the end of a line continues it.
    assert lines[:4] == ["spark.of.image yes", "spark.master yarn", "spark.tail a \\", ""]
    assert "spark.master local[2]" in lines[4:]
    assert r"spark.x a\\b" in lines  # a properties file reads a backslash as an escape
    assert "spark.driver.host 10.0.0.9" in lines
    # From Spark 4.3 on, executors connect to that one.
    assert "spark.driver.bindAddress 10.0.0.9" in lines
    assert f"spark.kubernetes.executor.podTemplateFile {Path(file).parent / 'executor.json'}" in lines


@pytest.mark.parametrize("form", ["--properties-file {}", "--properties-file={}"])
def test_the_jobs_settings_hold_beside_a_properties_file_of_the_image(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, form: str
) -> None:
    """spark-submit reads one such file only: the last that is named."""
    own = tmp_path / "of image.conf"
    own.write_text("spark.of.image yes\nspark.master yarn")
    variable = form.format(shlex.quote(str(own)))
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--name 'a b' {variable} pyspark-shell")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "")
    config.adopt_spark_properties({"spark.master": "local[2]"}, None)
    option, file, *rest = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
    assert (option, rest) == ("--properties-file", ["--name", "a b", "pyspark-shell"])
    settings = dict(line.split(maxsplit=1) for line in Path(file).read_text().splitlines() if line)
    assert (settings["spark.of.image"], settings["spark.master"]) == ("yes", "local[2]")


def test_a_properties_file_of_the_image_that_is_not_there_is_named() -> None:
    with pytest.raises(config.NotConfigured, match=r"/nowhere\.conf, which cannot be read"):
        config.write_spark_properties(
            {}, None, {"PYSPARK_SUBMIT_ARGS": "--properties-file /nowhere.conf pyspark-shell"}
        )


def test_a_setting_cannot_smuggle_in_another() -> None:
    with pytest.raises(config.NotConfigured, match=r"spark\.a"):
        config.write_spark_properties({"spark.a": "1\nspark.driver.host evil"}, None, {})
