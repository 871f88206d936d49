"""Jobs without Kubernetes on the page: folders, processes, and what a button can do there."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from streamjob.cli.__main__ import main
from streamjob.cli.errors import ExitCode
from streamjob.cli.local import runtime
from streamjob.cli.local.end import NotRunning, OnlyAtStart
from streamjob.cli.options import Options
from streamjob.cli.ui.jobs import Jobs
from streamjob.cli.ui.local import LocalDetails, LocalJobs
from streamjob.cli.ui.requests import Request

from ..browser import problems
from ..cli.local_job import Process, started
from .conftest import Site, serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

Obj = dict[str, Any]
PAGE = pytest.mark.only_if_changed("ui", "operator/streamjob/cli", "tests/ui", "tests/browser.py")


class Told:
    """A listener: what it was told, in order."""

    def __init__(self) -> None:
        self.news: list[tuple[str, str, str]] = []
        self.jobs: dict[str, Obj] = {}

    def replace(self, found: list[Obj]) -> None: ...

    def put(self, job: Obj) -> None:
        self.jobs[job["metadata"]["uid"]] = job
        self.news.append(("put", job["metadata"]["name"], job["status"]["phase"]))

    def remove(self, uid: str) -> None:
        self.news.append(("remove", self.jobs.pop(uid)["metadata"]["name"], ""))

    def since(self) -> list[tuple[str, str, str]]:
        found, self.news = self.news, []
        return found


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    """A job `orders` that runs, in a process of its own."""
    with started(tmp_path / "orders") as found:
        yield found


def the_job(folder: Path) -> Obj:
    told = Told()
    LocalJobs(folder).look(told)
    (found,) = told.jobs.values()
    return found


# --- folders ------------------------------------------------------------------------------------------------


def test_what_changes_is_told_and_nothing_else(tmp_path: Path) -> None:
    jobs, told = LocalJobs(tmp_path), Told()
    jobs.look(told)
    assert told.since() == []
    with started(tmp_path / "orders") as process:
        jobs.look(told)
        assert told.since() == [("put", "orders", "Running")]
        jobs.look(told)
        assert told.since() == []
        process.end(signal.SIGKILL)  # which changes no file
        jobs.look(told)
        assert told.since() == [("put", "orders", "Cancelled")]
    for file in (tmp_path / "orders").iterdir():
        file.unlink()
    jobs.look(told)
    assert told.since() == [("remove", "orders", "")]


def test_one_job_or_those_one_level_below(process: Process, tmp_path: Path) -> None:
    with started(tmp_path / "clicks"):
        (tmp_path / "no-job").mkdir()
        (tmp_path / "deeper/orders").mkdir(parents=True)
        (tmp_path / "deeper/orders/index.json").write_text("{}")
        for folder, names in ((tmp_path, ["clicks", "orders"]), (process.folder, ["orders"])):
            told = Told()
            LocalJobs(folder).look(told)
            assert [name for _, name, _ in told.since()] == names
    copies = {the_job(tmp_path / name)["metadata"]["uid"] for name in ("clicks", "orders")}
    assert len(copies) == 2, "although both say that they are the same job"


def test_jobs_are_followed_until_it_is_closed(process: Process, tmp_path: Path) -> None:
    jobs = Jobs(LocalJobs(tmp_path))
    thread = threading.Thread(target=jobs.run)
    thread.start()
    page = jobs.subscribe()
    while jobs.find(str(tmp_path), "orders") is None:
        page.next(60)
    process.end(signal.SIGTERM)
    while jobs.find(str(tmp_path), "orders")["status"]["phase"] != "Stopped":  # type: ignore[index]
        assert page.next(60) is not None
    (samples,) = jobs.history(str(process.folder)).values()
    assert samples[0][1]["lagRows"] == 9
    jobs.close()
    thread.join(60)
    assert not thread.is_alive()


# --- details ------------------------------------------------------------------------------------------------


def test_the_parts_that_there_are(process: Process) -> None:
    process.end(signal.SIGTERM)
    found = LocalDetails(Options()).read(the_job(process.folder))
    assert set(found) == {"index", "timeline"}, "and neither Events nor pods"
    assert [c["scenario"] for c in found["index"]["checkpoints"]] == ["Stop"]
    assert [(e["kind"], e["outcome"]) for e in found["timeline"]] == [("epoch", "ok"), ("stop", "ok")]


def test_the_diagnosis_is_that_of_the_command(process: Process, capsys: pytest.CaptureFixture[str]) -> None:
    process.end(signal.SIGKILL)
    assert main(["diagnose", "--json", "--local", str(process.folder)]) == ExitCode.DONE
    said = json.loads(capsys.readouterr().out)
    found = LocalDetails(Options()).diagnosis(the_job(process.folder))
    assert found["findings"]
    assert [f["what"] for f in found["findings"]] == [f["what"] for f in said]
    assert found["command"] == f"streamjob diagnose --local {process.folder}"


def test_what_a_local_job_cannot_do_says_why(process: Process) -> None:
    details, job = LocalDetails(Options()), the_job(process.folder)
    asked = details.permissions(job)["requests"]
    assert {name for name, request in asked.items() if not request["why"]} == {"stop", "cancel"}
    assert asked["stop"]["command"] == f"streamjob stop --local {process.folder} --wait"
    assert "--local --drain SCRIPT" in asked["drain"]["why"]
    for name, request in asked.items():
        if request["why"]:
            with pytest.raises(OnlyAtStart):
                details.request(job, Request(name))
    assert process.runs


@pytest.mark.parametrize(("request_", "code"), [(Request.STOP, 0), (Request.CANCEL, -signal.SIGKILL)])
def test_what_it_can_is_a_signal_to_its_process(process: Process, request_: Request, code: int) -> None:
    details, job = LocalDetails(Options()), the_job(process.folder)
    details.request(job, request_)
    assert process.popen.wait(60) == code
    with pytest.raises(NotRunning, match="no process runs"):
        details.request(job, request_)


def test_savepoints_are_read_by_the_runtime(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own. A script stands in for it here: it would start a Java."""
    job, answer = the_job(process.folder), {"size": 9, "own": 4, "problem": None}
    script = (
        "import json, sys; print(json.dumps([{'uri': ' '.join(sys.argv[1:]), 'size': 9, 'own': 4, 'x': 1}]))"
    )
    monkeypatch.setattr(runtime, "COMMAND", (sys.executable, "-c", script))
    asked = f"savepoint list {process.folder}/savepoints --json"
    assert LocalDetails(Options()).savepoints(job) == [{"uri": asked, **answer}]
    script = "import sys; sys.exit('ModuleNotFoundError: No module named pyspark')"
    monkeypatch.setattr(runtime, "COMMAND", (sys.executable, "-c", script))
    with pytest.raises(runtime.RuntimeFailed, match=r"pyspark.*the environment in which the job runs"):
        LocalDetails(Options()).savepoints(job)


# --- the command --------------------------------------------------------------------------------------------


def test_the_command_serves_a_folder_and_ends_with_its_input(process: Process) -> None:
    """So whoever has started it need not end it."""
    words = [sys.executable, "-m", "streamjob.cli", "ui", "--no-browser", "--until-eof", "--local"]
    with subprocess.Popen(
        [*words, str(process.folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as popen:
        assert popen.stdin is not None
        assert popen.stdout is not None
        address = popen.stdout.readline().strip()
        base, token = address.split("/#token=")
        path = f"{base}/api/jobs/{str(process.folder.parent).replace('/', '%2F')}/orders"
        request = urllib.request.Request(f"{path}/details", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request) as answer:
            assert set(json.load(answer)) == {"index", "timeline"}
        assert popen.poll() is None
        popen.stdin.close()
        assert popen.wait(60) == 0


# --- the page -----------------------------------------------------------------------------------------------


@pytest.fixture
def site(process: Process) -> Iterator[Site]:
    with serving(local=process.folder.parent) as found:
        yield found


@pytest.mark.browser
@PAGE
def test_a_local_job_is_looked_at_and_stopped(page: Page, site: Site, process: Process) -> None:
    page.goto(site.address)
    page.get_by_role("link", name="orders", exact=True).click()
    page.get_by_text("The job runs on this machine, without Kubernetes.").wait_for()
    page.get_by_role("tab", name="Events").wait_for(state="hidden")  # with the answer that it has none
    tabs = page.get_by_role("tab").all_inner_texts()
    assert tabs == ["Overview", "Diagnosis", "Timeline", "Checkpoints", "Configuration"]
    page.get_by_label("Graph of the stages").get_by_text("batch 7").wait_for()
    drain = page.locator(".actions button", has_text="Drain")
    assert drain.get_attribute("aria-disabled") == "true"
    why = page.locator(f"#{drain.get_attribute('aria-describedby')}")
    assert "when it starts" in (why.text_content() or "")
    page.get_by_role("tab", name="Configuration").click()
    page.get_by_text("spark.master").wait_for()
    page.get_by_role("tab", name="Overview").click()
    page.locator(".actions").get_by_role("button", name="Stop", exact=True).click()
    page.locator("h1", has_text="Stopped").wait_for()
    assert process.popen.wait(60) == 0
    page.get_by_text("No process runs; start the script to continue").wait_for()
    page.get_by_role("tab", name="Checkpoints").click()
    page.get_by_role("row").filter(has_text="stop-2").first.wait_for()


@pytest.mark.browser
@PAGE
def test_a_cancel_names_its_command(page: Page, site: Site, process: Process) -> None:
    page.goto(site.address)
    page.get_by_role("link", name="orders", exact=True).click()
    page.locator("button[aria-disabled=false]", has_text="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel orders?")
    dialog.get_by_text(f"streamjob cancel --local {process.folder} --wait").wait_for()
    dialog.get_by_role("button", name="Cancel orders").click()
    page.locator("h1", has_text="Cancelled").wait_for()
    assert process.popen.wait(60) == -signal.SIGKILL


@pytest.mark.browser
@PAGE
def test_accessibility_without_kubernetes(page: Page, site: Site, process: Process) -> None:
    page.goto(site.address)
    page.get_by_role("link", name="orders", exact=True).click()
    page.get_by_text("without Kubernetes").wait_for()
    page.get_by_role("tab", name="Events").wait_for(state="hidden")  # with the answer that it has none
    found = {}
    for tab in page.get_by_role("tab").all():
        tab.click()
        page.get_by_text("Reading…").first.wait_for(state="hidden")
        found[tab.inner_text()] = problems(page)
    assert {where: said for where, said in found.items() if said} == {}


@pytest.mark.browser
@PAGE
def test_a_folder_without_jobs_says_so(page: Page, tmp_path: Path) -> None:
    with serving(local=tmp_path) as site:
        page.goto(site.address)
        page.get_by_text(f"No job has run in {tmp_path}").wait_for()
        with started(tmp_path / "orders"):
            page.get_by_role("link", name="orders", exact=True).wait_for()
