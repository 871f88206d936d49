"""What the driver is told, and the Spark configuration that it makes of it."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from streamjob.protocol import codec
from streamjob.protocol.messages import Application, DriverConfig
from streamjob.protocol.records import JobRef
from streamjob.runtime import config

CONFIG = DriverConfig(JobRef("ns", "orders", "u-1"), 2, Application(file="/app.py"), "file:///cp")


def test_it_is_read_from_the_environment() -> None:
    assert config.load({config.VARIABLE: codec.dumps(CONFIG)}) == CONFIG


@pytest.mark.parametrize("environment", [{}, {config.VARIABLE: "{"}, {config.VARIABLE: '{"epoch": 1}'}])
def test_what_is_missing_or_malformed_is_named(environment: dict[str, str]) -> None:
    with pytest.raises(config.NotConfigured, match=config.VARIABLE):
        config.load(environment)


def test_a_missing_secret_is_named(tmp_path: Path) -> None:
    with pytest.raises(config.NotConfigured, match="token"):
        config.credentials(tmp_path)


def test_spark_is_given_the_jobs_settings_and_the_pods_address(monkeypatch: pytest.MonkeyPatch) -> None:
    spark_conf = {"spark.master": "local[2]", "spark.x": r"a\b"}
    monkeypatch.setenv("POD_IP", "10.0.0.9")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--name mine pyspark-shell")
    config.adopt_spark_properties(
        DriverConfig(**{**CONFIG.__dict__, "spark_conf": spark_conf, "executor_template": "{}"})
    )
    option, file, *rest = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
    assert option == "--properties-file"
    assert rest == ["--load-spark-defaults", "--name", "mine", "pyspark-shell"]
    lines = Path(file).read_text().splitlines()
    assert "spark.master local[2]" in lines
    assert r"spark.x a\\b" in lines  # a properties file reads a backslash as an escape
    assert "spark.driver.host 10.0.0.9" in lines
    assert f"spark.kubernetes.executor.podTemplateFile {Path(file).parent / 'executor.json'}" in lines


def test_a_setting_cannot_smuggle_in_another() -> None:
    bad = DriverConfig(**{**CONFIG.__dict__, "spark_conf": {"spark.a": "1\nspark.driver.host evil"}})
    with pytest.raises(config.NotConfigured, match=r"spark\.a"):
        config.write_spark_properties(bad, {})
