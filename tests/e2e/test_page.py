"""A user with a browser and `kubectl streamjob ui`: a job is stopped by its button, an upgrade that fails is
read from the page, and a drain is watched to its end.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dev.cluster.layout import REPOSITORY
from dev.demo.job import KIND, Job
from dev.demo.site import Site
from dev.demo.waiting import PATIENCE

from ..browser import picture, problems
from .jobs import local_job, make_scripts, read_on
from .shared_volume import APPS, Storage, expected

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.cluster, pytest.mark.browser, pytest.mark.timeout(1800)]
# What the page has shown, however short: the title of the life cycle, and each step that was `now`.
RECORDER = """() => {
    window.seen = [];
    const text = (row) => [...row.querySelectorAll('.step')].map((step) => step.lastChild.textContent);
    const look = () => {
        const rows = [...document.querySelectorAll('.life tbody tr')];
        const lines = rows.map((row) => `${row.querySelector('th').textContent}: ${text(row)}`);
        for (const line of [document.querySelector('#life')?.textContent, ...lines])
            if (line && !window.seen.includes(line)) window.seen.push(line);
    };
    const all = {subtree: true, childList: true, characterData: true, attributes: true};
    new MutationObserver(look).observe(document.body, all);
    look();
}"""


@pytest.fixture
def address(cluster: Site) -> Iterator[str]:
    """The command as its user starts it."""
    kubectl = cluster.kubectl
    env = {**kubectl.environment(), "KUBECTL": kubectl.program, "PYTHONPATH": str(REPOSITORY / "operator")}
    context = ["--context", kubectl.context] if kubectl.context else []
    command = [sys.executable, "-m", "streamjob.cli", "ui", "--no-browser", "-n", kubectl.namespace, *context]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


def press(page: Page, label: str) -> None:
    """Press a button as soon as the user may."""
    page.locator(".actions button[aria-disabled=false]", has_text=label).click(timeout=PATIENCE * 1000)


def await_phase(page: Page, phase: str) -> None:
    page.locator(".head .phase", has_text=phase).wait_for(timeout=PATIENCE * 1000)


@pytest.mark.slow
def test_a_job_is_stopped_upgraded_in_vain_and_drained_on_the_page(
    cluster: Site, storage: Storage, page: Page, address: str
) -> None:
    make_scripts(cluster.kubectl, "two", {"two.py": (APPS / "two.py").read_text()})
    upgrade = {"startTimeout": "60s", "probation": "10s"}
    spec = local_job(
        cluster,
        "paged",
        "two.py",
        "/data/out/paged",
        scripts="two",
        checkpoint={"interval": "5s"},
        upgrade=upgrade,
    )
    page.goto(address)
    cluster.kubectl.apply(spec)
    page.get_by_role("link", name="paged").click()
    await_phase(page, "Running")
    job = Job(cluster.kubectl, "paged")
    read_on(job, storage, 400)

    graph = page.get_by_label("Graph of the stages")
    graph.locator(".edge").wait_for(state="attached", timeout=PATIENCE * 1000)
    assert (
        "Reads from copy"
        in graph.locator(".stage").filter(has=page.locator("strong", has_text="sums")).inner_text()
    )
    page.locator("figcaption", has_text="Rows read per second").wait_for(timeout=PATIENCE * 1000)

    press(page, "Stop")
    await_phase(page, "Stopped")
    assert job.view().phase == "Stopped"
    press(page, "Resume")
    await_phase(page, "Running")
    read_on(job, storage, 200)

    image = spec["spec"]["image"]
    wrong = {"image": "streamjob.dev/no-such-image:dev", "imagePullPolicy": "Never"}
    job.kubectl.patch(KIND, job.name, {"spec": wrong})
    findings = page.get_by_label("Problems and warnings")
    findings.get_by_text("no-such-image").first.wait_for(timeout=PATIENCE * 1000)
    findings.get_by_text("spec.image").first.wait_for()
    page.get_by_role("tab", name="Configuration").click()
    page.get_by_text("Rolled back: the running driver").wait_for(timeout=PATIENCE * 1000)
    line = page.get_by_role("row").filter(has_text="no-such-image")
    assert image in line.inner_text()
    picture(page, "ui-upgrade")
    assert problems(page) == []
    job.kubectl.patch(KIND, job.name, {"spec": {"image": image, "imagePullPolicy": None}})
    page.get_by_text("exactly the configuration below").wait_for(timeout=PATIENCE * 1000)

    page.get_by_role("tab", name="Overview").click()
    await_phase(page, "Running")
    read_on(job, storage, 200)
    page.evaluate(RECORDER)
    press(page, "Drain")
    page.get_by_role("button", name="Drain paged").click()
    page.get_by_role("heading", name="Drain in progress").wait_for()
    picture(page, "ui-drain-of-test")
    await_phase(page, "Drained")
    page.get_by_role("heading", name="Last drain").wait_for()
    seen = page.evaluate("window.seen")
    assert "Drain in progress" in seen
    found = storage.look(job.name)
    assert found.output == expected(found.numbers)
    # Upstream first: sums runs on while copy has ended. Every task has passed the index.
    assert any(line.startswith("copy: done,done,done,now") for line in seen), seen
    assert any(line.startswith("sums / 0: now") or line.startswith("sums / 0: done,now") for line in seen), (
        seen
    )
    page.get_by_role("tab", name="Timeline").click()
    for what in ("stop", "drain", "epoch 1"):
        page.get_by_role("row").filter(has_text=what).first.wait_for(timeout=PATIENCE * 1000)
    assert problems(page) == []
