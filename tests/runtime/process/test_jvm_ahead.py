"""Whether the JVM that was started ahead is the one that pyspark would start for the script."""

from __future__ import annotations

import pytest

from streamjob.runtime.process.jvm_ahead import differs, differs_in

OURS = ["/spark/bin/spark-submit", "--properties-file", "/tmp/a/spark.properties", "pyspark-shell"]


def command(
    *settings: str, program: str = "/spark/./bin/spark-submit", rest: list[str] = OURS[1:]
) -> list[str]:
    return [program, *(word for setting in settings for word in ("--conf", setting)), *rest]


@pytest.mark.parametrize(
    "wanted",
    [
        command(),
        command("spark.app.name=a=b"),
        command("spark.app.name=x", "spark.sql.shuffle.partitions=2", "spark.sql.extensions=a.B"),
    ],
)
def test_what_the_session_sets_later_makes_no_difference(wanted: list[str]) -> None:
    assert differs(OURS, wanted) is None


@pytest.mark.parametrize(
    "key",
    ["spark.driver.memory", "spark.jars.packages", "spark.master", "spark.hadoop.fs.s3a.path", "spark.sq"],
)
def test_what_a_jvm_reads_at_its_start_does(key: str) -> None:
    assert differs(OURS, command("spark.app.name=x", f"{key}=1")) == key


@pytest.mark.parametrize(
    "wanted",
    [
        command(program="/other/bin/spark-submit"),
        command(rest=["pyspark-shell"]),
        command(rest=["--packages", "a:b:1", *OURS[1:]]),
        command("spark.app.name=x", rest=[]),
        ["/spark/bin/spark-submit", "--conf"],
    ],
)
def test_another_command_is_another_jvm(wanted: list[str]) -> None:
    assert differs(OURS, wanted) == "Spark's folder or PYSPARK_SUBMIT_ARGS"


def test_a_user_who_has_settings_in_the_submit_arguments_gets_them() -> None:
    ours = [OURS[0], "--conf", "spark.driver.memory=2g", "pyspark-shell"]
    assert differs(ours, list(ours)) is None
    assert differs(ours, [OURS[0], "--conf", "spark.app.name=x", *ours[1:]]) is None
    assert differs(ours, [OURS[0], "--conf", "spark.driver.memory=3g", *ours[1:]]) == "spark.driver.memory"


def test_the_environment_is_the_same_but_for_pysparks_own() -> None:
    ours = {"PATH": "/bin", "_PYSPARK_DRIVER_CONN_INFO_PATH": "/a", "SPARK_CONNECT_MODE": "0"}
    assert differs_in(ours, {"PATH": "/bin", "_PYSPARK_DRIVER_CONN_INFO_PATH": "/b"}) is None
    assert differs_in(ours, {**ours, "MY": "1"}) == "the variable MY"
    assert differs_in({**ours, "MY": "1"}, ours) == "the variable MY"
    assert differs_in(ours, {**ours, "PATH": "/usr/bin"}) == "the variable PATH"
