"""The page in a real browser, with the real server and the real kubectl; the API server is recorded."""

from __future__ import annotations

import gzip
import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from streamjob.cli.__main__ import main
from streamjob.cli.errors import ExitCode
from streamjob.cli.ui.server import page_files

from ..browser import problems
from . import recorded
from .api_server import ApiServer
from .conftest import Site, serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.only_if_changed("ui", "operator/streamjob/cli", "tests/ui", "tests/browser.py"),
]
# Of each canvas: whether something is drawn in the colour of a series, which is no grey.
COLOURED = """(canvases) => canvases.map((canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    for (let i = 0; i < data.length; i += 4) {
        const [red, green, blue, alpha] = data.slice(i, i + 4);
        if (alpha > 200 && Math.max(red, green, blue) - Math.min(red, green, blue) > 60) return true;
    }
    return false;
})"""
TABS = ("overview", "diagnosis", "timeline", "checkpoints", "configuration", "events")


@pytest.fixture
def now() -> datetime:
    return datetime.now(timezone.utc)


@pytest.fixture
def everything(api: ApiServer, now: datetime) -> ApiServer:
    """`orders` in the middle of a drain, and a job in each other situation."""
    api.put("streamjobs", recorded.draining(now), recorded.rolled_back(now), *recorded.others(now))
    api.put("configmaps", recorded.index(now))
    api.put("pods", *recorded.pods(now))
    api.put("events", *recorded.events(now))
    return api


@pytest.fixture
def failing(api: ApiServer, now: datetime) -> ApiServer:
    """`orders` has failed."""
    api.put("streamjobs", recorded.failed(now))
    api.put("configmaps", recorded.index(now))
    api.put("pods", *recorded.failed_pods(now))
    api.put("events", *recorded.events(now))
    api.logs["orders-driver-5"] = recorded.FAILED_LOG
    return api


def open_job(page: Page, site: Site, name: str = "orders", tab: str = "overview") -> None:
    page.goto(site.address)
    page.get_by_role("link", name=name, exact=True).click()
    page.get_by_role("heading", name=name).wait_for()
    if tab != "overview":
        page.evaluate(f"location.hash = '#/streams/{name}/{tab}'")


# --- the address --------------------------------------------------------------------------------------------


def test_the_token_leaves_the_address_and_stays_in_the_tab(
    page: Page, site: Site, everything: ApiServer
) -> None:
    page.goto(site.address)
    page.get_by_role("link", name="orders", exact=True).wait_for()
    assert site.server.tokens.token not in page.url
    page.reload()
    page.get_by_role("link", name="orders", exact=True).wait_for()
    assert page.evaluate("document.cookie") == ""


def test_a_code_opens_the_page_once(browser: Any, site: Site, everything: ApiServer) -> None:
    address = site.server.address(f"once={site.server.tokens.code()}")
    first, second = browser.new_context().new_page(), browser.new_context().new_page()
    first.goto(address)
    first.get_by_role("link", name="orders", exact=True).wait_for()
    second.goto(address)
    second.get_by_role("heading", name="This address is not enough").wait_for()
    first.context.close()
    second.context.close()


# --- the list -----------------------------------------------------------------------------------------------


def test_the_list_filters_sorts_and_opens_by_keyboard(page: Page, site: Site, everything: ApiServer) -> None:
    page.goto(site.address)
    rows = page.locator("#rows tr:not(.spacer)")
    page.get_by_role("link", name="orders", exact=True).wait_for()
    assert rows.count() == len(everything.objects) - 1 - 6 - 7  # without index, pods and Events
    assert rows.first.inner_text().split()[0] in ("Drained", "Failed"), "what needs a person comes first"
    page.keyboard.press("/")
    page.keyboard.type("orders drain")
    assert [row.split("\n")[0].split("\t")[1].strip() for row in rows.all_inner_texts()] == ["orders"]
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="orders").wait_for()
    page.keyboard.press("Escape")
    page.get_by_label("Filter the jobs").fill("")
    page.get_by_role("button", name="Running").click()
    phases = {row.split("\t")[0].strip() for row in rows.all_inner_texts()}
    assert phases == {"Running"}


def test_the_arrows_go_through_a_thousand_jobs(page: Page, api: ApiServer, site: Site, now: datetime) -> None:
    api.put("streamjobs", *recorded.many(now, 1000))
    page.goto(site.address)
    page.get_by_role("heading", name="1000 jobs").wait_for()
    page.get_by_role("button", name="Job", exact=True).click()
    assert page.locator("#rows tr:not(.spacer)").count() < 80, "only what is in sight is in the document"
    page.locator("#rows a").first.focus()
    page.keyboard.press("End")
    page.locator(":focus", has_text="job-0993").wait_for()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.locator(":focus", has_text="job-0007").wait_for()


# --- a job --------------------------------------------------------------------------------------------------


@pytest.mark.smoke
def test_the_life_cycle_of_a_drain(page: Page, site: Site, everything: ApiServer, now: datetime) -> None:
    open_job(page, site)
    table = page.get_by_role("table").filter(has_text="Max watermark")
    lines = {
        row.get_by_role("rowheader").inner_text(): row.get_by_role("cell").all_inner_texts()
        for row in table.locator("tbody tr").all()
    }

    def words(name: str) -> str:
        return " ".join(cell.replace("✓", "").strip() for cell in lines[name][:6])

    assert words("orders / 0") == "done done done now to come to come"
    assert words("joined") == "done now to come to come to come to come"
    assert words("windows") == "to come to come to come to come to come to come"
    page.get_by_text("Waits for the driver: windows: reads what joined has left, 2 of 3 batches").wait_for()
    page.get_by_text("to the deadline, then it becomes a stop").wait_for()
    everything.put("streamjobs", recorded.drained(now))
    page.get_by_role("heading", name="Last drain").wait_for()
    page.get_by_text("20.4k").wait_for()  # rows emitted by timers


def test_the_graph_has_edges_tasks_and_finished_flags(page: Page, site: Site, everything: ApiServer) -> None:
    open_job(page, site)
    graph = page.get_by_label("Graph of the stages")
    assert graph.locator(".edge").count() == 3
    joined = graph.get_by_role("listitem").filter(has=page.get_by_role("button", name="joined"))
    assert "Reads from orders, payments" in joined.first.inner_text()
    orders = graph.locator(".stage").filter(has=page.locator("strong", has_text="orders"))
    assert orders.locator(".tasks").get_attribute("aria-label") == "Tasks: 3 waits for its final checkpoint"
    assert orders.get_by_label("finished").count() == 2
    x = {
        name: graph.locator(".stage").filter(has=page.locator("strong", has_text=name)).bounding_box()["x"]  # type: ignore[index]
        for name in ("orders", "joined", "windows")
    }
    assert x["orders"] < x["joined"] < x["windows"]


def test_remedies_come_before_everything_else(page: Page, site: Site, everything: ApiServer) -> None:
    """A failing upgrade, read from the page."""
    open_job(page, site, "sessions")
    findings = page.get_by_label("Problems and warnings")
    findings.get_by_text("ErrImagePull").first.wait_for()
    findings.get_by_text("Set spec.image to an image that exists").first.wait_for()
    assert findings.bounding_box()["y"] < page.get_by_role("tablist").bounding_box()["y"]  # type: ignore[index]


def test_the_diagnosis_is_that_of_the_command(
    page: Page, site: Site, failing: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", "orders", "-n", "streams", "--json"]) == ExitCode.PROBLEM
    said = json.loads(capsys.readouterr().out)
    open_job(page, site, tab="diagnosis")
    findings = page.get_by_label("Findings, the worst first").locator("> li")
    findings.first.wait_for()
    shown = findings.locator("h3").all_inner_texts()
    assert [text.lower().split() for text in shown] == [[f["severity"], f["reason"].lower()] for f in said], (
        "each with its severity as a word"
    )
    assert shown[0] == "Error QueryFailed"
    first = findings.first
    evidence = said[0]["evidence"][0]["text"].partition("ago: ")[2]
    assert evidence
    assert evidence in first.get_by_label("Evidence").inner_text()
    assert "What to do: Make the catalog reachable" in first.inner_text()
    assert "The next move is yours" in first.inner_text()
    log = findings.filter(has_text="Unreachable").get_by_label("Evidence")
    assert "catalog.lake.svc:8181" in log.inner_text(), "of the log of the driver that failed"
    assert problems(page) == []


def test_a_diagnosis_is_read_on_demand_only(page: Page, site: Site, failing: ApiServer) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    open_job(page, site)
    page.get_by_role("tab", name="Events").click()
    page.get_by_role("row").filter(has_text="orders-driver-1").first.wait_for()
    assert "diagnosis" not in asked
    page.get_by_role("tab", name="Diagnosis").click()
    page.get_by_role("heading", name="Error QueryFailed").wait_for()
    assert asked.count("diagnosis") == 1
    failing.put("streamjobs", recorded.orders(datetime.now(timezone.utc)))
    page.locator("h1", has_text="Running").wait_for()
    assert asked.count("diagnosis") == 1
    page.get_by_role("button", name="Look again").click()
    page.get_by_role("heading", name="Error QueryFailed").wait_for(state="hidden")


def test_what_an_upgrade_changes(page: Page, site: Site, everything: ApiServer, now: datetime) -> None:
    job = recorded.orders(now)
    job["spec"]["image"] = "registry.example/orders:1.5.0"
    everything.put("streamjobs", job)
    open_job(page, site, tab="configuration")
    line = page.get_by_role("row").filter(has_text="registry.example/orders:1.5.0")
    line.wait_for()
    assert line.inner_text().split() == [
        "image",
        "registry.example/orders:1.4.2",
        "registry.example/orders:1.5.0",
    ]


def test_the_timeline_and_the_index(page: Page, site: Site, everything: ApiServer) -> None:
    open_job(page, site, tab="timeline")
    page.get_by_role("row").filter(has_text="exit code 137: OOMKilled").wait_for()
    page.get_by_role("row").filter(has_text="stop (upgrade)").wait_for()
    page.get_by_role("tab", name="Checkpoints").click()
    page.get_by_role("row").filter(has_text="upgrade-4-7").first.wait_for()
    assert page.get_by_role("row").filter(has_text="1648\u20131650").count() == 1
    page.keyboard.press("ArrowRight")
    page.get_by_role("tab", name="Configuration", selected=True).wait_for()


def test_one_sample_is_a_point(page: Page, api: ApiServer, now: datetime) -> None:
    """A line needs two."""
    with serving(clock=now.timestamp) as site:
        api.put("streamjobs", recorded.orders(now))
        open_job(page, site)
        page.locator("figure canvas").first.wait_for()
        drawn = page.locator("figure canvas").evaluate_all(COLOURED)
        assert len(drawn) >= 7
        assert all(drawn), drawn


def test_charts_have_what_the_server_has_seen(page: Page, api: ApiServer, now: datetime) -> None:
    clock = [now.timestamp()]
    with serving(clock=lambda: clock[0]) as site:
        api.put("streamjobs", recorded.orders(now))
        open_job(page, site)
        caption = page.locator("figcaption").filter(has_text="Rows read per second")
        caption.get_by_text("4.82k").wait_for()
        clock[0] += 10
        api.put("streamjobs", recorded.orders(now, 470.0))
        caption.get_by_text("5.72k").wait_for()
        assert page.locator("figure canvas").count() == page.locator("figure").count() >= 7


# --- what the user may do -----------------------------------------------------------------------------------


def test_a_job_is_stopped_by_its_button(page: Page, site: Site, api: ApiServer, now: datetime) -> None:
    api.put("streamjobs", recorded.orders(now))
    open_job(page, site)
    page.locator("button[aria-disabled=false]", has_text="Stop").click()
    page.get_by_text("→ Stopped").wait_for()
    assert api.patches == [{"spec": {"state": "Stopped"}}]


def test_a_drain_is_confirmed_by_name(page: Page, site: Site, api: ApiServer, now: datetime) -> None:
    api.put("streamjobs", recorded.orders(now))
    open_job(page, site)
    button = page.locator("button[aria-disabled=false]", has_text="Drain")
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Drain orders?")
    dialog.wait_for()
    page.keyboard.press("Enter")  # the focus is on the harmless one
    dialog.wait_for(state="hidden")
    assert api.patches == []
    assert page.evaluate("document.activeElement.textContent") == "Drain…", "the focus is back"
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Drain orders").click()
    page.get_by_text("→ Drained").wait_for()
    assert api.patches == [{"spec": {"state": "Drained"}}]


def test_without_the_permission_the_buttons_say_so(
    page: Page, site: Site, everything: ApiServer, now: datetime
) -> None:
    everything.allowed = False
    everything.put("streamjobs", recorded.orders(now))
    open_job(page, site)
    page.get_by_text("your account lacks “patch streamjobs”").wait_for()
    for button in page.get_by_role("group", name="What orders shall do").get_by_role("button").all():
        assert button.get_attribute("aria-disabled") == "true"
        why = page.locator(f"#{button.get_attribute('aria-describedby')}")
        assert why.inner_text().startswith("Not now: ")
        button.focus()
        page.keyboard.press("Enter")
    assert everything.patches == []


def test_a_savepoint_is_taken_though_the_status_has_changed_and_is_told(
    page: Page, site: Site, api: ApiServer, now: datetime
) -> None:
    """The button's patch names a version, and the status of a running job changes all the time."""
    job = recorded.orders(now)
    api.put("streamjobs", job)
    open_job(page, site)
    page.locator("button[aria-disabled=false]", has_text="Savepoint").wait_for()
    api.lags = 2  # others are faster that often
    page.get_by_role("button", name="Savepoint", exact=True).click()
    notice = page.get_by_role("status").filter(has_text="avepoint")
    notice.get_by_text("A savepoint is requested").wait_for()
    assert [p["spec"] for p in api.patches] == [{"savepoint": {"nonce": 1}}]
    where = recorded.savepoint("savepoint-manual-8")
    request = {"requestId": "savepoint-manual-8", "cause": "Manual", "savepoint": where, "checkpoint": 413}
    times = {"requestedAt": recorded.at(now, seconds=9), "deadline": recorded.at(now, seconds=-99)}
    made = {"latest": where, "checkpoint": 413, "completedAt": recorded.at(now, seconds=2), "drained": False}
    job["status"] |= {"savepointRequest": request | times, "savepoint": made, "savepointNonce": 1}
    job["spec"]["savepoint"]["nonce"] = 1
    api.put("streamjobs", job)
    notice.get_by_text("Savepoint savepoint-manual-8 is complete: checkpoint 413").wait_for()
    assert page.get_by_role("button", name="Stop").count() == 1


def test_what_the_api_server_refuses_is_told(page: Page, site: Site, api: ApiServer, now: datetime) -> None:
    api.put("streamjobs", recorded.orders(now))
    open_job(page, site)
    page.locator("button[aria-disabled=false]", has_text="Suspend").wait_for()
    api.allowed = False  # revoked meanwhile
    page.get_by_role("button", name="Suspend").click()
    page.get_by_role("alert").get_by_text("cannot patch resource").wait_for()


def test_a_cluster_that_is_away_is_told_and_comes_back(
    page: Page, site: Site, everything: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    page.goto(site.address)
    page.get_by_role("link", name="orders", exact=True).wait_for()
    everything.down = True
    page.get_by_role("alert").get_by_text("Jobs cannot be read").wait_for()
    assert page.get_by_role("link", name="orders", exact=True).count() == 1, "what was known stays"
    everything.down = False
    page.get_by_role("alert").wait_for(state="hidden")


# --- figures ------------------------------------------------------------------------------------------------


def test_a_phase_is_shown_when_the_api_server_has_it(
    page: Page, site: Site, api: ApiServer, now: datetime
) -> None:
    """Each step is one notification: API server, kubectl, server, page. Nothing polls. The figure of 0.5 s is
    measured by dev/bench, not here: no test depends on the clock."""
    api.put("streamjobs", recorded.orders(now))
    page.goto(site.address)
    page.get_by_role("link", name="orders", exact=True).wait_for()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    api.put("streamjobs", recorded.draining(now))
    page.locator("#rows td.phase", has_text="Draining").wait_for()
    assert asked == []


def test_an_update_of_one_job_touches_one_row(page: Page, site: Site, api: ApiServer, now: datetime) -> None:
    """So its cost does not grow with the number of jobs."""
    api.put("streamjobs", *recorded.many(now, 1000))
    page.goto(site.address)
    page.get_by_role("heading", name="1000 jobs").wait_for()
    page.get_by_role("button", name="Job", exact=True).click()
    page.evaluate(
        """() => { window.touched = new Set();
        new MutationObserver((records) => { for (const r of records) {
            const row = (r.target.nodeType === 3 ? r.target.parentElement : r.target).closest('tr');
            if (row) window.touched.add(row.dataset.row ?? 'other'); } })
        .observe(document.getElementById('rows'), {subtree: true, childList: true, characterData: true}); }"""
    )
    changed = next(o for (_, _, name), o in api.objects.items() if name == "job-0007")
    status = {**changed["status"], "phase": "Stopping"}
    api.put("streamjobs", {**changed, "status": status})
    page.locator("#rows tr", has_text="job-0007").locator("td.phase", has_text="Stopping").wait_for()
    touched = page.evaluate("[...window.touched]")
    assert len(touched) == 1


# --- everybody ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1280, 860), (390, 800)], ids=["wide", "phone"])
def test_accessibility(
    page: Page, site: Site, everything: ApiServer, scheme: Any, size: tuple[int, int]
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(site.address)
    page.get_by_role("link", name="orders", exact=True).wait_for()
    found = {"list": problems(page)}
    for tab in TABS:
        page.evaluate(f"location.hash = '#/streams/orders/{tab}'")
        page.get_by_role("tabpanel").wait_for()
        page.get_by_text("Reading…").first.wait_for(state="hidden")
        found[tab] = problems(page)
        assert page.evaluate("document.querySelector('main').scrollWidth <= innerWidth"), f"{tab} is too wide"
    page.keyboard.press("?")
    page.get_by_role("dialog").wait_for()
    found["help"] = problems(page)
    assert {where: said for where, said in found.items() if said} == {}


@pytest.mark.smoke
def test_bundle_is_small() -> None:
    files = {name: content for name, (_, content) in page_files().items() if name != "/"}
    size = sum(len(gzip.compress(content, 9)) for content in files.values())
    assert 50_000 < size < 300_000
    text = b"".join(files[name] for name in ("/index.html", "/app.js", "/app.css"))
    assert b"eval(" not in text
    assert b"<style" not in files["/index.html"]
