"""A headless Chromium for tests of the page."""

from __future__ import annotations

import os
import shutil
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

ROOT = Path(__file__).parents[1]
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
AXE = ROOT / "ui/node_modules/axe-core/axe.min.js"
PICTURES = ROOT / ".build/pictures"  # `make pictures` takes those of the docs from here
DOCS = ROOT / "docs/pictures"
SAME = 0.002  # of the points; an edge of a letter may be smoothed in another way
COMPARE = """async (urls) => {
    const [one, other] = await Promise.all(urls.map(async (url) => {
        const image = new Image();
        image.src = url;
        await image.decode();
        const canvas = document.createElement('canvas');
        [canvas.width, canvas.height] = [image.width, image.height];
        const drawn = canvas.getContext('2d');
        drawn.drawImage(image, 0, 0);
        return {canvas, drawn, points: drawn.getImageData(0, 0, image.width, image.height)};
    }));
    const [before, after] = [one.points, other.points];
    if (before.width !== after.width || before.height !== after.height) return [1, other.canvas.toDataURL()];
    let differ = 0;
    for (let i = 0; i < after.data.length; i += 4) {
        const apart = [0, 1, 2].map((c) => Math.abs(before.data[i + c] - after.data[i + c]));
        if (Math.max(...apart) < 48) continue;
        differ += 1;
        after.data.set([255, 0, 0, 255], i);
    }
    other.drawn.putImageData(after, 0, 0);
    return [differ / (after.width * after.height), other.canvas.toDataURL()];
}"""


@pytest.fixture(scope="module")  # not longer: its event loop is the thread's, and other tests run their own
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


def picture(page: Page, name: str, *, is_stable: bool = False) -> None:
    """A screenshot for the docs.

    :param is_stable: nothing in it depends on the time or the machine. Then it has to look like the one
        in the docs, unless STREAMJOB_WRITE is set: `make pictures` takes it anew.
    """
    PICTURES.mkdir(parents=True, exist_ok=True)
    taken = page.screenshot(path=PICTURES / f"{name}.png", animations="disabled")
    in_docs = DOCS / f"{name}.png"
    if not is_stable or os.environ.get("STREAMJOB_WRITE") or not in_docs.exists():
        return
    share, marked = difference(page.context, in_docs.read_bytes(), taken)
    if share > SAME:
        found = PICTURES / f"{name}-difference.png"
        found.write_bytes(marked)
        raise AssertionError(f"{in_docs} differs in {share:.1%} of its points, see {found}; make pictures")


def difference(context: BrowserContext, one: bytes, other: bytes) -> tuple[float, bytes]:
    """The share of points that differ visibly, and `other` with those points in red. Both are PNG."""
    tab = context.new_page()  # without the policy of the page
    try:
        share, url = tab.evaluate(
            COMPARE, [f"data:image/png;base64,{b64encode(p).decode()}" for p in (one, other)]
        )
    finally:
        tab.close()
    return share, b64decode(url.partition(",")[2])
