"""The pictures of the docs: `make pictures` takes them from here."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from streamjob.cli.printing import times

from ..browser import difference, picture
from . import recorded
from .api_server import ApiServer
from .conftest import serving

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [pytest.mark.browser, pytest.mark.slow]
MINUTES = 40  # of figures
NOW = datetime(2026, 1, 2, 15, 4, 5, tzinfo=timezone.utc)


def test_pictures(page: Page, api: ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job in the middle of a drain, with the figures of the time before. They look as in the docs."""
    now, clock = NOW, [0.0]
    page.clock.set_fixed_time(now)
    monkeypatch.setattr(times, "now", lambda: now)
    with serving(clock=lambda: clock[0]) as site:
        for moment in range(-MINUTES * 60, 0, 10):
            clock[0] = now.timestamp() + moment
            site.jobs.put(recorded.orders(now, moment))
        clock[0] = now.timestamp()
        api.put("streamjobs", recorded.draining(now), recorded.rolled_back(now), *recorded.others(now))
        api.put("configmaps", recorded.index(now))
        api.put("pods", *recorded.pods(now))
        api.put("events", *recorded.events(now))
        page.goto(site.address)
        # `orders` alone is there from the start.
        page.get_by_role("link", name="telemetry", exact=True).wait_for()
        picture(page, "ui-list", is_stable=True)
        page.set_viewport_size({"width": 1280, "height": 1000})
        page.get_by_role("link", name="orders", exact=True).click()
        page.locator(".actions button[aria-disabled=false]", has_text="Cancel").wait_for()
        page.locator("figure canvas").first.wait_for()
        picture(page, "ui-drain", is_stable=True)
        page.emulate_media(color_scheme="dark")
        picture(page, "ui-drain-dark", is_stable=True)
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": 390, "height": 844})
        picture(page, "ui-phone", is_stable=True)
        page.set_viewport_size({"width": 1280, "height": 760})
        page.get_by_role("tab", name="Timeline").click()
        page.get_by_role("row").filter(has_text="OOMKilled").wait_for()
        picture(page, "ui-timeline", is_stable=True)
        api.put("streamjobs", recorded.failed(now))
        api.put("pods", *recorded.failed_pods(now))
        api.logs["orders-driver-5"] = recorded.FAILED_LOG
        page.set_viewport_size({"width": 1280, "height": 1000})
        page.locator("h1", has_text="Failed").wait_for()
        page.get_by_role("tab", name="Diagnosis").click()
        page.get_by_role("heading", name="Warning Unreachable").wait_for()
        picture(page, "ui-diagnosis", is_stable=True)


def test_a_picture_that_looks_otherwise_is_noticed(page: Page) -> None:
    def taken(text: str) -> bytes:
        page.set_content(f"<p style='font: 16px sans-serif'>{text}</p>")
        return page.screenshot()

    one, again, other = taken("42 rows"), taken("42 rows"), taken("47 rows")
    assert difference(page.context, one, again)[0] == 0
    share, marked = difference(page.context, one, other)
    assert 0 < share < 0.01
    assert difference(page.context, other, marked)[0] == share
