"""What MkDocs calls while it builds the site.

Runs in the environment of MkDocs, without the product's libraries.
"""

from __future__ import annotations

import html as entities
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, InclusionLevel

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from dev.docs.pages import DOCS, SOURCE, BadPage, Site, source_name  # noqa: E402

GENERATED = ROOT / ".build" / "docs"
IMAGE = re.compile(r'<img alt="([^"]*)" src="[^"]*?(pictures/[\w-]+\.svg)" ?/?>')
# Where a name in the cell of a table may break: behind a slash, a dot, colons or an underscore, and within
# CamelCase.
CELL = re.compile(r"<td\b.*?</td>", re.DOTALL)
CODE_OF_CELL = re.compile(r"<code>([^<]+)</code>")
BREAK = re.compile(r"(?<=[/_])(?=\w)|(?<=::)(?=\w)|(?<=\w\.)(?!py\b)(?=[a-z])|(?<=[a-z]{4})(?=[A-Z])")
# What a browser loads by itself. A link that a reader may follow is not among it.
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"?(?:https?:)?//[^>]*>")

_site = Site(ROOT)


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the files outside of docs/ to which some page links, and which those pages link to."""
    _site.generated = {path.stem: path.read_text() for path in sorted(GENERATED.glob("*.md"))}
    _site.learn_sections()
    in_nav = set(re.findall(rf"{SOURCE}/([\w./-]+)", str(config.nav)))
    _site.linked |= in_nav
    try:
        for file in files.documentation_pages():
            _site.page(file.src_uri, file.content_string, f"{DOCS}/{file.src_uri}")
        known: set[str] = set()
        while known != _site.linked:
            for name in sorted(_site.linked - known):
                known.add(name)
                text, uri = _site.source_page(name), source_name(name).removeprefix(f"{DOCS}/")
                _site.page(uri, text, name)
                level = InclusionLevel.UNDEFINED if name in in_nav else InclusionLevel.NOT_IN_NAV
                files.append(File.generated(config, uri, content=text, inclusion=level))
    except BadPage as e:
        raise PluginError(str(e)) from e
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    uri: str = page.file.src_uri
    origins = {source_name(name).removeprefix(f"{DOCS}/"): name for name in _site.linked}
    return _site.page(uri, markdown, origins.get(uri, f"{DOCS}/{uri}"))


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """Put pictures into the page, so that they follow its colours. Let long names in tables wrap."""

    def picture(found: re.Match[str]) -> str:
        text = (ROOT / DOCS / found[2]).read_text()
        svg = text[text.index("<svg") :].replace("<svg", f'<svg aria-label="{found[1]}"', 1)
        return f'<span class="picture-frame" data-search-exclude>{svg}</span>'

    html = CELL.sub(
        lambda cell: CODE_OF_CELL.sub(lambda c: f"<code>{BREAK.sub('<wbr>', c[1])}</code>", cell[0]), html
    )
    return IMAGE.sub(picture, html)


def on_post_build(config: Any) -> None:
    """Check that the site needs no other server."""
    for path in sorted(Path(config.site_dir).rglob("*.html")):
        found = LOADED.search(path.read_text())
        if found:
            raise PluginError(f"{path.name} loads something from elsewhere: {entities.unescape(found[0])}")
