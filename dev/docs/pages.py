"""Assembles the pages of the site from the Markdown files of the repository. Pure: text in, text out.

The files in docs/ must be readable in the repository, and the site must not copy text. So a page marks what
the site puts in place of some lines:

    <!-- include: README.md#streamjob -->       the section of that file, without its heading
    The [README](../README.md) says it.         what a reader of the repository sees instead
    <!-- /include -->

    <!-- generated: resource -->                a page that `python -m dev.docs` has generated
    …
    <!-- /generated -->

Links lead to the same place as in the repository. A file outside of docs/ has a page below source/.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

DOCS = "docs"
SOURCE = "source"
MARK = re.compile(
    r"<!-- (?P<kind>include|generated): (?P<what>\S+) -->\n(?P<instead>.*?)<!-- /(?P=kind) -->\n?", re.DOTALL
)
HEADING = re.compile(r"^(#{1,6}) +(.+?) *$")
FENCE = re.compile(r"^ *(```+|~~~+)")
CODE = re.compile(r"(?ms)(^ *```.*?^ *```$|`[^`\n]+`)")
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:|^//", re.IGNORECASE)
MERMAID = re.compile(r"(?ms)^(?:<!--[^\n]*-->\n)?```mermaid\n(.*?)^```\n(?:<!-- /[^\n]*-->\n)?")
# Mermaid runs in the browser and would come from another server. The site shows these pictures instead, by
# the first word of the diagram.
PICTURES = {
    "flowchart": ("pictures/endings.svg", "What a stop and a drain do, step by step"),
    "stateDiagram-v2": ("pictures/task.svg", "The life cycle of a task"),
}
LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".sh": "sh",
    ".toml": "toml",
    ".xml": "xml",
    ".json": "json",
}


class BadPage(Exception):
    """A page includes something that does not exist."""


def slug(heading: str) -> str:
    """The anchor of a heading, as the repository's forge and MkDocs make it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def headings(text: str) -> Iterator[tuple[int, int, str]]:
    """Number of the line, level and slug of each heading outside of code."""
    fence = ""
    for number, line in enumerate(text.splitlines()):
        mark = FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence):
            fence = ""
        found = None if fence else HEADING.match(line)
        if found:
            yield number, len(found[1]), slug(found[2])


def section(text: str, anchor: str, name: str = "the file") -> str:
    """The text of a section, without its heading. Of a first-level section, only what is above the others.

    :raises BadPage: there is no such section.
    """
    lines = text.splitlines(keepends=True)
    found = list(headings(text))
    for i, (number, level, own) in enumerate(found):
        if own == anchor:
            ends = [n for n, other, _ in found[i + 1 :] if other <= level or level == 1]
            return "".join(lines[number + 1 : ends[0] if ends else len(lines)]).strip("\n") + "\n"
    raise BadPage(f"{name} has no section #{anchor}")


@dataclass
class Site:
    """The files of the repository and what the site makes of them.

    :param root: the repository.
    :param generated: the generated pages by name.
    :param sections: for each included section (`README.md#streamjob`), the page and the anchor that have it.
    :param linked: files outside of docs/ to which a page links.
    """

    root: Path
    generated: Mapping[str, str] = field(default_factory=dict)
    sections: dict[str, str] = field(default_factory=dict)
    linked: set[str] = field(default_factory=set)

    def learn_sections(self) -> None:
        """Note which page has which section of which file."""
        for path in sorted((self.root / DOCS).rglob("*.md")):
            text = path.read_text()
            page = path.relative_to(self.root / DOCS).as_posix()
            for mark in MARK.finditer(text):
                if mark["kind"] == "include":
                    above = [(level, own) for _, level, own in headings(text[: mark.start()])]
                    anchor = f"#{above[-1][1]}" if above and above[-1][0] > 1 else ""
                    self.sections.setdefault(mark["what"], page + anchor)

    def page(self, name: str, text: str, origin: str) -> str:
        """The Markdown of a page of the site.

        :param name: the page, as a path below docs/.
        :param text: what the file says.
        :param origin: the file, as a path in the repository.
        :raises BadPage: it includes something that does not exist.
        """
        parts: list[str] = []
        at = 0
        for mark in MARK.finditer(text):
            parts.append(self._finished(name, text[at : mark.start()], origin))
            parts.append(self._put_in(name, mark["kind"], mark["what"]))
            at = mark.end()
        parts.append(self._finished(name, text[at:], origin))
        return "".join(parts)

    def source_page(self, name: str) -> str:
        """The page of a file outside of docs/, except for its links."""
        text = (self.root / name).read_text()
        if name.endswith(".md"):
            return text
        fence = "`" * 4
        return f"# {name}\n\n{fence}{LANGUAGES.get(Path(name).suffix, 'text')}\n{text.rstrip()}\n{fence}\n"

    def _put_in(self, name: str, kind: str, what: str) -> str:
        if kind == "generated":
            if what not in self.generated:
                raise BadPage(f"{name}: nothing generates {what!r}")
            return self._finished(name, self.generated[what], f"{DOCS}/{name}")
        file, _, anchor = what.partition("#")
        return self._finished(name, section((self.root / file).read_text(), anchor, file), file)

    def _finished(self, name: str, text: str, origin: str) -> str:
        text = MERMAID.sub(lambda m: self._picture(name, m[1]), text)
        return outside_code(
            text, lambda prose: LINK.sub(lambda m: m[1] + self._target(m[2], origin, name) + m[3], prose)
        )

    def _picture(self, name: str, diagram: str) -> str:
        kind = diagram.split(maxsplit=1)[0]
        if kind not in PICTURES:
            raise BadPage(f"{name}: there is no picture of the {kind} diagram")
        picture, text = PICTURES[kind]
        return f"![{text}]({relative(f'{DOCS}/{picture}', f'{DOCS}/{name}')})\n"

    def _target(self, link: str, origin: str, name: str) -> str:
        """The link of a file, as a link of the page that shows it."""
        path, hash_, anchor = link.partition("#")
        if ELSEWHERE.match(link):
            return link
        if not path:
            # A section of the same file. If this page only includes a part of that file, it may be elsewhere.
            there = self.sections.get(f"{origin}#{anchor}", name)
            if there.partition("#")[0] == name or origin == f"{DOCS}/{name}":
                return link
            path = posixpath.basename(origin)
        file = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        if (self.root / file).is_dir() and (self.root / file / "README.md").is_file():
            file = f"{file}/README.md"
        shown = self.sections.get(f"{file}#{anchor}")
        if shown:
            file, hash_, anchor = f"{DOCS}/{shown}".partition("#")[0], *shown.partition("#")[1:]
        elif file == "README.md":
            file, hash_, anchor = f"{DOCS}/index.md", "", ""
        elif not file.startswith(f"{DOCS}/"):
            if not (self.root / file).is_file():
                return link  # MkDocs says that it is broken
            self.linked.add(file)
            file = source_name(file)
        return relative(file, f"{DOCS}/{name}") + hash_ + anchor


def source_name(file: str) -> str:
    """The page of a file outside of docs/, as a path in the repository."""
    return f"{DOCS}/{SOURCE}/{file}" + ("" if file.endswith(".md") else ".md")


def relative(file: str, page: str) -> str:
    return posixpath.relpath(file, posixpath.dirname(page))


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """Change the text except for code in fences and between backquotes."""
    parts = CODE.split(text)
    return "".join(part if i % 2 else change(part) for i, part in enumerate(parts))
