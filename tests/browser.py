"""A headless Chromium for tests of the page."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[1]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
AXE = ROOT / "ui/node_modules/axe-core/axe.min.js"
PICTURES = ROOT / ".build/pictures"  # `make pictures` takes those of the docs from here


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert program, "no Chromium: dev/bootstrap.sh servers installs it"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab. A message on its console, or an error in it, fails the test."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 860},
        timezone_id="UTC",
        locale="en-GB",
        color_scheme="light",
        reduced_motion="reduce",
    )
    tab = context.new_page()
    tab.set_default_timeout(60_000)
    said: list[str] = []
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    yield tab
    context.close()
    # What the server refuses is the browser's to log and the page's to tell.
    unexpected = [text for text in said if not text.startswith("Failed to load resource")]
    assert not unexpected, "\n".join(unexpected)


def problems(page: Page) -> list[str]:
    """What axe-core finds: WCAG 2.2 AA and best practices."""
    found: list[Any] = page.evaluate(
        f"(async () => {{ {AXE.read_text()}\n; return (await axe.run()).violations; }})()"
    )
    return [f"{v['id']}: {n['html'][:200]} {n['failureSummary']}" for v in found for n in v["nodes"]]


def picture(page: Page, name: str) -> None:
    """A screenshot for the docs."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")
