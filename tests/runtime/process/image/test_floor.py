"""What an image must have: Spark of pyspark's version, and a Java that it runs on."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from streamjob.protocol.errors import StreamJobError
from streamjob.runtime.process.image import floor


def spark(home: Path, version: str) -> Path:
    (home / "jars").mkdir()
    (home / "jars" / f"spark-core_2.13-{version}.jar").touch()
    return home


def java(home: Path, release: str | None) -> dict[str, str]:
    (home / "bin").mkdir()
    (home / "bin" / "java").touch(mode=0o755)
    if release is not None:
        (home / "release").write_text(f'IMPLEMENTOR="Debian"\nJAVA_VERSION="{release}"\n')
    return {"JAVA_HOME": str(home)}


def refused(error: StreamJobError) -> tuple[str, bool]:
    assert error.remedy
    return error.reason, error.retryable


def test_the_image_of_this_test_is_good() -> None:
    floor.refuse_image(in_pod=False)


@pytest.mark.parametrize("jars", ["4.1.4", "4.1.0", "4.1.5-SNAPSHOT"])
def test_jars_of_the_same_line_fit(tmp_path: Path, jars: str) -> None:
    floor.refuse_spark("4.1.4", spark(tmp_path, jars))


@pytest.mark.parametrize("jars", ["4.0.5", "3.5.9"])
def test_another_pyspark_than_the_jars(tmp_path: Path, jars: str) -> None:
    with pytest.raises(floor.PysparkMismatch) as raised:
        floor.refuse_spark("4.1.4", spark(tmp_path, jars))
    assert refused(raised.value) == ("PysparkMismatch", False)
    assert "pyspark 4.1.4" in raised.value.message
    assert f"Spark {jars}" in raised.value.message


def test_pyspark_without_spark(tmp_path: Path) -> None:
    for home in (tmp_path, None):
        with pytest.raises(floor.SparkMissing) as raised:
            floor.refuse_spark("4.1.4", home)
        assert refused(raised.value) == ("SparkMissing", False)


def test_no_java(tmp_path: Path) -> None:
    for environment in ({"PATH": str(tmp_path)}, {"JAVA_HOME": str(tmp_path)}):
        with pytest.raises(floor.JavaMissing) as raised:
            floor.refuse_java("4.1.4", environment)
        assert refused(raised.value) == ("JavaMissing", False)


@pytest.mark.parametrize("variable", [True, False])
def test_java_may_come_from_spark_env(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: bool
) -> None:
    """spark-class runs it first; a Java that it does not name is missed when the JVM starts."""
    monkeypatch.setattr(floor, "spark_home", lambda: spark(tmp_path, pyspark.__version__))
    monkeypatch.setenv("JAVA_HOME", "/no/java")
    conf = tmp_path / ("elsewhere" if variable else "conf")
    conf.mkdir()
    (conf / "spark-env.sh").write_text("export JAVA_HOME=/opt/java\n")
    if variable:
        monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
    floor.refuse_image(in_pod=False)


def test_java_on_the_path(tmp_path: Path) -> None:
    java(tmp_path, "21.0.2")
    floor.refuse_java("4.1.4", {"PATH": str(tmp_path / "bin")})


@pytest.mark.parametrize(
    ("release", "spark_version", "good"),
    [
        ("17.0.13", "4.1.4", True),
        ("11.0.25", "4.1.4", False),
        ("1.8.0_432", "4.0.0", False),
        ("1.8.0_432", "3.5.9", True),
        (None, "4.1.4", True),
    ],
)
def test_a_java_that_is_too_old(tmp_path: Path, release: str | None, spark_version: str, good: bool) -> None:
    environment = java(tmp_path, release)
    if good:
        floor.refuse_java(spark_version, environment)
        return
    with pytest.raises(floor.JavaTooOld) as raised:
        floor.refuse_java(spark_version, environment)
    assert refused(raised.value) == ("JavaTooOld", False)
    assert "needs 17" in raised.value.message
