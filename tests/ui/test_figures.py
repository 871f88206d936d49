"""What the page costs: from the API server to the screen, and for each update among a thousand jobs.

No limits here, because no test depends on the clock: the figures are printed at the end of the run.
"""

from __future__ import annotations

import statistics
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from . import recorded
from .api_server import ApiServer
from .conftest import Site

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]
# When the text of the first row changed, by the clock that both sides share.
WATCH = """() => {
    window.shown = {};
    const rows = document.getElementById('rows');
    new MutationObserver(() => {
        for (const row of rows.querySelectorAll('tr[data-row]')) {
            const text = row.querySelector('.phase').textContent + row.querySelector('.epoch').textContent;
            window.shown[text] ??= Date.now();
        }
    }).observe(rows, {subtree: true, childList: true, characterData: true});
}"""


def seconds(session: CDPSession) -> dict[str, float]:
    """What the tab has spent since it was opened, by kind of work."""
    found: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    return {m["name"]: m["value"] for m in found if m["name"] in ("ScriptDuration", "ThreadTime")}


@pytest.fixture
def now() -> datetime:
    return datetime.now(timezone.utc)


def test_from_the_api_server_to_the_page(
    page: Page, site: Site, api: ApiServer, now: datetime, record_property: Any
) -> None:
    job = recorded.orders(now)
    api.put("streamjobs", job)
    page.goto(site.address)
    page.get_by_role("link", name="orders", exact=True).wait_for()
    page.evaluate(WATCH)
    took = []
    for epoch in range(100, 120):
        put = datetime.now(timezone.utc).timestamp() * 1000
        api.put("streamjobs", {**job, "status": {**job["status"], "epoch": epoch}})
        page.locator("#rows td.epoch", has_text=str(epoch)).wait_for()
        took.append(page.evaluate(f"window.shown['Running{epoch}']") - put)
    text = f"{statistics.median(took):.0f} ms median, {max(took):.0f} ms at most, of {len(took)}"
    record_property("figure", f"a change of phase from the API server to the page: {text}")
    assert len(took) == 20


def test_an_update_among_a_thousand_jobs(
    page: Page, site: Site, api: ApiServer, now: datetime, record_property: Any
) -> None:
    jobs = recorded.many(now, 1000)
    api.put("streamjobs", *jobs)
    page.goto(site.address)
    page.get_by_role("heading", name="1000 jobs").wait_for()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    page.evaluate(WATCH)
    before, updates = seconds(session), 50
    for i in range(updates):
        job = jobs[4]  # one that has failed, so it is on top of the list
        changed = {**job, "status": {**job["status"], "epoch": 1000 + i}}
        api.put("streamjobs", changed)
        page.locator("#rows td.epoch", has_text=str(1000 + i)).wait_for()
    spent = {name: (value - before[name]) / updates * 1000 for name, value in seconds(session).items()}
    text = f"{spent['ScriptDuration']:.1f} ms of scripts, {spent['ThreadTime']:.1f} ms of CPU for everything"
    record_property("figure", f"an update among 1,000 jobs (with the test's own observer): {text}")
    assert spent["ScriptDuration"] > 0
