"""The command line: what it reads and writes, and its exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from streamjob.convert.applications.policies import RESTARTS_MOST
from streamjob.convert.cli import DONE, REFUSED, UNREADABLE, convert, main

from .inputs import DATA, apache, kubeflow

Output = pytest.CaptureFixture[str]
SCALA = DATA / "kubeflow" / "spark-pi.yaml"
PLACES = ["--checkpoints", "s3a://b/c", "--savepoints", "s3a://b/s"]


def write(folder: Path, *documents: object) -> str:
    (folder / "in.yaml").write_text(yaml.safe_dump_all(documents))
    return str(folder / "in.yaml")


def test_a_file_becomes_yaml_and_an_account(tmp_path: Path, capsys: Output) -> None:
    file = write(tmp_path, kubeflow({"proxyUser": "someone"}))
    assert convert([file, *PLACES, "--restore", "main=s3a://b/old"]) == DONE
    out, err = capsys.readouterr()
    job = yaml.safe_load(out)
    assert job["spec"]["storage"] == {"checkpoints": "s3a://b/c", "savepoints": "s3a://b/s"}
    assert job["spec"]["restoreFrom"] == {"checkpoints": {"main": "s3a://b/old"}}
    assert "Without a counterpart:\n    spec.proxyUser: the driver runs as its own user" in err
    assert "To decide" not in err
    assert not out.startswith("#")


def test_what_is_to_decide_is_missing_and_stands_above_the_job(tmp_path: Path, capsys: Output) -> None:
    assert convert([write(tmp_path, kubeflow())]) == DONE
    out, err = capsys.readouterr()
    assert "storage" not in yaml.safe_load(out)["spec"]
    assert out.startswith("# Decide spec.storage.checkpoints: ")
    assert "  To decide:\n    spec.storage.checkpoints: " in err


def test_a_list_of_kubectl_is_its_objects(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    items = [kubeflow(), {**kubeflow(), "metadata": {"name": "other"}}]
    body = {"apiVersion": "v1", "kind": "List", "items": items}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(body)))
    assert convert([]) == DONE
    jobs = list(yaml.safe_load_all(capsys.readouterr().out))
    assert [job["metadata"]["name"] for job in jobs] == ["orders", "other"]


def test_a_query_with_two_checkpoint_directories_is_refused(tmp_path: Path, capsys: Output) -> None:
    """It is a typing error in the name of the second query, which would begin from nothing."""
    both = ["--restore", "windows=s3a://b/one", "--restore", "windows=s3a://b/two"]
    assert convert([write(tmp_path, kubeflow()), *PLACES, *both]) == UNREADABLE
    out, err = capsys.readouterr()
    assert out == ""
    assert "'windows' twice" in err


def test_restarts_of_the_policy_always_have_no_limit_of_the_other_policy(
    tmp_path: Path, capsys: Output
) -> None:
    policy = {"type": "Always", "onFailureRetries": 10, "onFailureRetryInterval": 5}
    assert convert([write(tmp_path, kubeflow({"restartPolicy": policy}))]) == DONE
    restart = yaml.safe_load(capsys.readouterr().out)["spec"]["restart"]
    assert (restart["policy"], restart["limit"]) == ("OnFailure", RESTARTS_MOST)


def test_a_refused_one_is_named_and_the_others_are_written(tmp_path: Path, capsys: Output) -> None:
    assert convert([str(SCALA), write(tmp_path, apache())]) == REFUSED
    out, err = capsys.readouterr()
    assert yaml.safe_load(out)["metadata"]["name"] == "orders"
    assert "SparkApplication default/spark-pi: refused: its program is in Scala" in err


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"kind": "SparkConnect"}, "Make a StreamJob for each"),
        ({"apiVersion": "sparkoperator.k8s.io/v1beta1"}, "is not v1beta2"),
        ({"apiVersion": "spark.apache.org/v1", "spec": {"sparkRFiles": "x.R"}}, "is in R"),
        ({"metadata": {}}, "without metadata.name"),
        ({"spec": {"type": "Python"}}, "no mainApplicationFile"),
        ({"spec": {**kubeflow()["spec"], "driver": {"memory": "lots"}}}, "spec.driver.memory"),
        ({"spec": {**kubeflow()["spec"], "mainApplicationFile": "https://u:p@h/a.py"}}, "password"),
        ({"spec": {**kubeflow()["spec"], "imagePullPolicy": "Sometimes"}}, "imagePullPolicy"),
    ],
)
def test_a_refusal_says_why(document: dict[str, object], text: str, tmp_path: Path, capsys: Output) -> None:
    assert convert([write(tmp_path, {**kubeflow(), **document})]) == REFUSED
    out, err = capsys.readouterr()
    assert out == ""
    assert text in " ".join(err.split())


def test_other_objects_are_passed_over(tmp_path: Path, capsys: Output) -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "more"}}
    assert convert([write(tmp_path, other, kubeflow())]) == DONE
    assert "ConfigMap more: passed over" in capsys.readouterr().err


def test_json_has_objects_and_accounts(tmp_path: Path, capsys: Output) -> None:
    assert convert(["--json", write(tmp_path, kubeflow()), str(SCALA)]) == REFUSED
    out, err = capsys.readouterr()
    assert err == ""
    one, other = json.loads(out)["conversions"]
    assert one["objects"][0]["kind"] == "StreamJob"
    assert {"kind": "Kept", "path": "spec.image", "to": "spec.image", "message": "", "fields": 1} in one[
        "entries"
    ]
    assert other["refused"]["reason"] == "NotConvertible"
    assert other["objects"] == []


@pytest.mark.parametrize("text", ["a: [", "", "\t"])
def test_input_that_cannot_be_read(text: str, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "in.yaml").write_text(text)
    assert convert([str(tmp_path / "in.yaml")]) == UNREADABLE
    assert capsys.readouterr().out == ""
    assert convert([str(tmp_path / "missing.yaml")]) == UNREADABLE


def test_one_restore_is_not_for_two(tmp_path: Path, capsys: Output) -> None:
    file = write(tmp_path, kubeflow(), kubeflow())
    assert convert([file, "--restore", "main=s3a://b/old"]) == UNREADABLE
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("arguments", [["--checkpoints", "here"], ["--restore", "s3a://x"], ["--strange"]])
def test_wrong_arguments(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as e:
        convert(arguments)
    assert e.value.code == UNREADABLE


def test_there_are_no_anchors(tmp_path: Path, capsys: Output) -> None:
    volume = {"name": "spark-data", "persistentVolumeClaim": {"claimName": "data"}}
    mounts = {"volumeMounts": [{"name": "spark-data", "mountPath": "/data"}]}
    spec = {"volumes": [volume], "driver": mounts, "executor": mounts}
    (tmp_path / "in.json").write_text(json.dumps(kubeflow(spec)))
    assert convert([str(tmp_path / "in.json")]) == DONE
    out = capsys.readouterr().out
    assert out.count("claimName: data") == 2
    assert "&" not in out


def test_times_are_strings(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "in.yaml").write_text(
        yaml.safe_dump(kubeflow()).replace("name: orders", "name: orders\n  annotations: {since: 2026-01-01}")
    )
    assert convert(["--json", str(tmp_path / "in.yaml")]) == DONE
    (one,) = json.loads(capsys.readouterr().out)["conversions"]
    assert one["objects"][0]["metadata"]["annotations"] == {"since": "2026-01-01"}


def test_the_program_and_the_module(capsys: Output) -> None:
    assert main(["convert", str(DATA / "kubeflow" / "spark-pi-python.yaml")]) == DONE
    assert main(["revert"]) == UNREADABLE
    assert main(["--help"]) == DONE
    run = subprocess.run(
        [sys.executable, "-m", "streamjob.convert", str(SCALA)], capture_output=True, text=True, check=False
    )
    assert run.returncode == REFUSED
    assert "pyspark" not in run.stderr


def test_it_needs_neither_spark_nor_kubernetes() -> None:
    script = (
        "import sys, streamjob.convert.cli; "
        "print([m for m in ('pyspark', 'py4j', 'kubernetes', 'kopf', 'aiohttp') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
