"""The demonstration's parts that need no cluster."""

from __future__ import annotations

import io
import json
import queue
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.demo import kubectl, site, steps
from dev.demo.console import WIDTH, Console
from dev.demo.job import View, changes
from dev.demo.waiting import Failure, TimedOut, until
from tests.e2e.apps import look
from tests.e2e.shared_volume import expected


def view(phase: str, **status: Any) -> View:
    return View(
        {"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "phase": phase, **status}}
    )


def test_nothing_is_wider_than_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console()
    with console.chapter("Stop", "kubectl patch"):
        console.saw("file:///data/savepoints/" + "x" * 50 + " and more words " * 9)
        console.plain("y" * 200)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= WIDTH
    assert "Stop" in console.seconds


def test_only_what_changed_is_told() -> None:
    running = view("Running")
    stopping = view("Stopping", termination={"step": "WaitingForBoundary", "progress": "batch 7 runs"})
    stopped = view("Stopped", checkpoint={"latest": 1}, savepoint={"latest": "file:///s/1"})
    assert list(changes(None, running)) == ["Running"]
    assert list(changes(running, running)) == []
    assert list(changes(running, stopping)) == ["Stopping: WaitingForBoundary: batch 7 runs"]
    assert next(changes(stopping, stopped)) == "Stopped"
    assert "savepoint file:///s/1" in list(changes(stopping, stopped))


def test_a_watch_is_cut_into_its_documents() -> None:
    first, second = {"metadata": {"labels": {}}, "n": 1}, {"n": [{"deep": "}\n"}]}
    text = "".join(json.dumps(document, indent=4) + "\n" for document in (first, second))
    documents: queue.Queue[kubectl.Object | None] = queue.Queue()
    kubectl._read(io.StringIO(text), documents)
    assert [documents.get(), documents.get(), documents.get()] == [first, second, None]


def test_waiting_ends() -> None:
    assert until(iter([0, 0, 3]).__next__, "three", 5, every=0) == 3
    with pytest.raises(TimedOut, match="never: not within 0 s"):
        until(lambda: False, "never", 0, every=0)


def test_the_sink_is_read_through_its_log(tmp_path: Path) -> None:
    """A compaction stands for what came before it; files that are not in the log do not count."""
    log = tmp_path / "_spark_metadata"
    log.mkdir()

    def entry(name: str, row: dict[str, int]) -> str:
        (tmp_path / name).write_text(json.dumps(row) + "\n")
        return json.dumps({"path": f"file://{tmp_path / name}", "action": "add"})

    a, b, c = entry("a", {"n": 1}), entry("b", {"n": 2}), entry("c", {"n": 3})
    entry("left-over", {"n": 9})
    (log / "8").write_text(f"v1\n{b}")
    (log / "9.compact").write_text(f"v1\n{a}\n{b}")
    (log / "10").write_text(f"v1\n{c}")
    assert look.sink(tmp_path) == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize(
    ("environment", "driver"),
    [
        ({}, "streamjob.dev/driver:dev"),
        ({"SPARK": "4.1"}, "streamjob.dev/driver:dev"),
        ({"SPARK": "3.5"}, "streamjob.dev/driver:dev-spark35"),
        ({"SPARK": "4.3", "IMAGE": "stock"}, "streamjob.dev/stock-kafka:dev-spark43"),
        ({"IMAGES": "registry.example/s", "IMAGE": "stock"}, "registry.example/s/stock-kafka:dev"),
    ],
)
def test_job_and_check_run_in_the_image_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], driver: str
) -> None:
    for name in ("CLUSTER", "IMAGES", "SPARK", "IMAGE"):
        monkeypatch.setenv(name, environment.get(name, "their" if name == "CLUSTER" else ""))
    settings = site.Settings.from_environment()
    place = site.Site(settings, kubectl.Kubectl("kubectl", "demo"), "helm")
    (job,) = steps.manifests(place, (steps.EXAMPLE / "streamjob.yaml").read_text())
    (check,) = steps.manifests(place, (steps.EXAMPLE / "check.yaml").read_text())
    assert job["spec"]["image"] == driver
    assert job["spec"].get("runtime") == (None if "stock" in driver else "Image")
    assert check["spec"]["template"]["spec"]["containers"][0]["image"] == driver
    broker = next(o for o in steps.manifests(place, steps.KAFKA.read_text()) if o["kind"] == "Deployment")
    assert broker["spec"]["template"]["spec"]["containers"][0]["image"] == f"{settings.images}/kafka:dev"


def test_the_check_finds_pyspark_in_a_stock_image() -> None:
    (check,) = yaml.safe_load_all((steps.EXAMPLE / "check.yaml").read_text())
    pod = steps.in_stock_image(check)["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == steps.STOCK_USER
    shell, option, script, *arguments = pod["containers"][0]["args"]
    assert (shell, option, arguments[0]) == ("sh", "-c", "/app/check.py")
    assert "py4j-*-src.zip" in script


@pytest.mark.parametrize(("name", "value"), [("SPARK", "3.4"), ("IMAGE", "mine")])
def test_a_setting_that_does_not_exist_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Failure, match=f"{name}={value}"):
        site.Settings.from_environment()


def test_expected_windows() -> None:
    assert expected(4) == [(0, 0, 2, 3), (0, 1, 1, 1), (0, 2, 1, 2)]
    assert sum(n for _, _, n, _ in expected(1234)) == 1234
