"""The examples in the documents work, as far as that shows without running them. The site has every page.

More than 600 lines, because each language of a block has its checks here.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from dev.docs import life_cycle, resource
from dev.docs.__main__ import commands as command_line_page
from dev.docs.pages import (
    CODE,
    DOCS,
    ELSEWHERE,
    LINK,
    MERMAID,
    PICTURES,
    BadPage,
    Site,
    headings,
    section,
    source_name,
)
from streamjob.api import ConditionType, StreamJob
from streamjob.api.crd import schema
from streamjob.cli.group import main as group
from streamjob.convert.cli import parser as convert_parser
from streamjob.protocol import lifecycle
from streamjob.runtime.__main__ import parser as job_parser
from streamjob.runtime.process.check import parser as check_parser
from streamjob.runtime.savepoints.cli import parser as savepoint_parser
from streamjob.runtime.savepoints.rows.cli import parser as state_parser

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / DOCS).rglob("*.md"))
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(ROOT.glob("examples/**/README.md")),
    *PAGES,
]
NAMES = [path.relative_to(ROOT).as_posix() for path in DOCUMENTS]
SHELL = ("", "sh", "bash", "shell")
FENCE = re.compile(r"^ *(```+)([\w+-]*)")


@dataclass(frozen=True)
class Block:
    """A block of code of a document. An indented one has no language."""

    line: int
    language: str
    text: str


@cache
def blocks(name: str) -> tuple[Block, ...]:
    lines = (ROOT / name).read_text().splitlines()
    found: list[Block] = []
    i = 0
    while i < len(lines):
        begin, fence = i, FENCE.match(lines[i])
        if fence:
            while i + 1 < len(lines) and not lines[i + 1].strip().startswith(fence[1]):
                i += 1
            found.append(Block(begin + 2, fence[2], textwrap.dedent("\n".join(lines[begin + 1 : i + 1]))))
            i += 2
        elif lines[i].startswith("    ") and (i == 0 or not lines[i - 1].strip()):
            while i < len(lines) and (lines[i].startswith("    ") or not lines[i].strip()):
                i += 1
            found.append(Block(begin + 1, "", textwrap.dedent("\n".join(lines[begin:i]))))
        else:
            i += 1
    return tuple(found)


def commands(text: str) -> Iterator[list[str]]:
    """The commands of a shell block, as lists of words. Bodies of here-documents are left out."""
    lines = iter(text.splitlines())
    for first in lines:
        line = first
        words = split(line)
        while words is None or line.rstrip().endswith(("\\", "|")):
            following = next(lines, None)
            if following is None:
                break
            line = f"{line.rstrip().removesuffix(chr(92))}\n{following}"
            words = split(line)
        if not words:
            continue
        ends = [word.removeprefix("<<") for word in words if re.fullmatch(r"<<\w+", word)]
        for end in ends:
            while next(lines, end).strip() != end:
                pass
        yield from parts(words)


def split(line: str) -> list[str] | None:
    """None if the line ends within quotes."""
    try:
        return shlex.split(line, comments=True)
    except ValueError:
        return None


def parts(words: list[str]) -> Iterator[list[str]]:
    """The commands that `|`, `&&` and the like connect, without variables; also what `kubectl exec` runs."""
    now: list[str] = []
    for word in [*words, ";"]:
        if word not in ("|", "&&", "||", "&", ";"):
            now.append(word)
            continue
        while now and re.fullmatch(r"[A-Z_]+=.*", now[0]):
            now = now[1:]
        if now:
            yield now
            if now[:2] == ["kubectl", "exec"] and "--" in now:
                yield now[now.index("--") + 1 :]
        now = []


def found(*beginning: str) -> list[Any]:
    """Every command of the documents that begins like this; python by whatever path."""
    cases = []
    for name in NAMES:
        for block in blocks(name):
            for words in commands(block.text) if block.language in SHELL else ():
                program = "python" if re.search(r"(^|/)python3?$", words[0]) else words[0]
                if (program, *words[1 : len(beginning)]) == beginning:
                    rest = [word for word in words[len(beginning) :] if word != "…"]
                    cases.append(pytest.param(rest, id=f"{name}:{block.line}"))
    assert cases, f"no document says {' '.join(beginning)}"
    return cases


@cache
def targets() -> frozenset[str]:
    rules = re.findall(r"^([a-z][\w -]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return frozenset(target for rule in rules for target in rule.split())


@pytest.mark.parametrize("words", found("make"))
def test_targets_of_make_exist(words: list[str]) -> None:
    assert [w for w in words if "=" not in w and not w.startswith("-") and w not in targets()] == []


@pytest.mark.parametrize("name", NAMES)
def test_targets_of_make_in_a_sentence_exist(name: str) -> None:
    named = re.findall(r"`make ([a-z][\w-]*)", (ROOT / name).read_text())
    assert [target for target in named if target not in targets()] == []


@pytest.mark.parametrize("words", found("python", "-m", "streamjob.runtime"))
def test_the_command_line_accepts_it(words: list[str]) -> None:
    parsers = {"savepoint": savepoint_parser, "state": state_parser}
    if words[-1:] == ["--help"]:
        return
    if words[0] in parsers:
        assert callable(parsers[words[0]]().parse_args(words[1:]).run)
    else:
        check = words[0] == "check"
        options = check_parser().parse_args(words[1:]) if check else job_parser().parse_args(words)
        assert options.script
        assert not [word for word in options.args if word.startswith("--")], (
            "an option behind the script is the script's"
        )


@pytest.mark.parametrize(
    "words", [*found("streamjob", "convert"), *found("python", "-m", "streamjob.convert")]
)
def test_the_converter_accepts_it(words: list[str]) -> None:
    if words[-1:] != ["--help"]:
        files = convert_parser().parse_args(words[: words.index(">")] if ">" in words else words).files
        assert [f for f in files if "/" in f and not (ROOT / f).exists()] == []


@pytest.mark.parametrize("words", found("kubectl", "streamjob"))
def test_the_plugin_of_kubectl_accepts_it(words: list[str]) -> None:
    parsed(words)


def parsed(words: list[str]) -> None:
    """:raises click.UsageError: a command or an option is wrong."""
    end = next((n for n, word in enumerate(words) if word in ("|", ">", "&&")), len(words))
    command: click.Command = group
    context = click.Context(command, info_name="kubectl streamjob")
    rest = words[:end]
    while isinstance(command, click.Group):
        name = rest.pop(0)
        found = command.get_command(context, name)
        assert found is not None, name
        command = found
    command.make_context("kubectl streamjob", rest, parent=context)


@pytest.mark.parametrize("words", found("python", "-m"))
def test_modules_exist(words: list[str]) -> None:
    module = words[0].replace(".", "/")
    places = [ROOT / "operator" / module, ROOT / module]
    ours = words[0].partition(".")[0] in ("streamjob", "dev", "tests")
    assert not ours or any(p.is_dir() or p.with_suffix(".py").is_file() for p in places)


BASE: dict[str, Any] = {
    "apiVersion": "streamjob.dev/v1alpha1",
    "kind": "StreamJob",
    "metadata": {
        "name": "orders",
        "namespace": "streams",
        "uid": "1",
        "generation": 1,
        "resourceVersion": "1",
    },
    "spec": {
        "image": "orders:1",
        "application": {"file": "/app.py"},
        "storage": {"checkpoints": "/c", "savepoints": "/s"},
    },
}


def merged(old: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merged(new.get(key), value)
    return new


PRESERVED = "x-kubernetes-preserve-unknown-fields"


def unknown(value: Any, node: dict[str, Any], path: str) -> Iterator[str]:
    """Fields that the API server would silently drop. The models drop them too."""
    if isinstance(value, dict) and "properties" in node and PRESERVED not in node:
        for key, child in value.items():
            if key in node["properties"]:
                yield from unknown(child, node["properties"][key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif isinstance(value, list):
        for child in value:
            yield from unknown(child, node.get("items", {}), f"{path}[]")


def accept(job: dict[str, Any]) -> None:
    assert list(unknown(job, schema(), "")) == []
    StreamJob.parse(
        merged(BASE, job) if "metadata" not in job else merged({"metadata": BASE["metadata"]}, job)
    )


@pytest.mark.parametrize("words", found("kubectl", "patch"))
def test_patches_are_valid(words: list[str]) -> None:
    assert words[words.index("--type") + 1] == "merge"
    patch = json.loads(words[words.index("-p") + 1])
    accept(merged(BASE, patch))


@pytest.mark.parametrize(
    "text",
    ['{"spec":{"state":"Paused"}}', '{"spec":{"sate":"Stopped"}}', '{"spec":{"savepoint":{"nonce":-1}}}'],
)
def test_an_invalid_patch_is_noticed(text: str) -> None:
    with pytest.raises((ValueError, AssertionError)):
        accept(merged(BASE, json.loads(text)))


@pytest.mark.parametrize("words", found("kubectl", "apply"))
def test_files_of_the_repository_that_are_applied_exist(words: list[str]) -> None:
    files = [words[i + 1] for i, word in enumerate(words[:-1]) if word in ("-f", "-k")]
    assert files
    assert [f for f in files if "/" in f and not (ROOT / f).exists()] == []


def yaml_blocks() -> list[Any]:
    return [
        pytest.param(b.text, id=f"{n}:{b.line}")
        for n in NAMES
        for b in blocks(n)
        if b.language in ("yaml", "yml")
    ]


@pytest.mark.parametrize("text", yaml_blocks())
def test_streamjobs_are_valid(text: str) -> None:
    for document in yaml.safe_load_all(text):
        if "kind" not in document and set(document) == {"spec"}:
            accept(
                {**document, "apiVersion": BASE["apiVersion"], "kind": "StreamJob", "metadata": {"name": "x"}}
            )
        elif document["kind"] == "StreamJob":
            assert document["apiVersion"] == BASE["apiVersion"]
            accept(document)
        else:
            assert document["apiVersion"]


@pytest.mark.parametrize("path", sorted(ROOT.glob("examples/**/streamjob.yaml")), ids=lambda p: p.parent.name)
def test_streamjobs_of_the_examples_are_valid(path: Path) -> None:
    accept(yaml.safe_load(path.read_text()))


LANGUAGES = {*SHELL, "yaml", "python", "json", "text", "mermaid"}
PROGRAMS = {
    "mkdir",
    "kubectl",
    "helm",
    "streamjob",
    "docker",
    "make",
    "python",
    "pip",
    "pipx",
    "cat",
    "echo",
    "sed",
    "export",
    "sh",
    ".",
}
VERBS = {
    *("apply", "config", "create", "delete", "describe", "drain"),
    *("exec", "get", "logs", "patch", "rollout", "scale", "streamjob", "wait"),
}


@pytest.mark.parametrize("name", NAMES)
def test_no_block_escapes_these_tests(name: str) -> None:
    """Each block has a language that some test reads; text is what a command prints."""
    assert [f"{name}:{b.line}: {b.language}" for b in blocks(name) if b.language not in LANGUAGES] == []


@pytest.mark.parametrize("name", NAMES)
def test_programs_of_shell_blocks_are_known(name: str) -> None:
    strange = [
        f"{name}:{block.line}: {' '.join(words)[:60]}"
        for block in blocks(name)
        if block.language in SHELL[1:]
        for words in commands(block.text)
        if words[0].rpartition("/")[2].removesuffix("3") not in PROGRAMS
        or (words[0] == "kubectl" and words[1] not in VERBS)
    ]
    assert strange == []


@pytest.mark.parametrize(
    "text",
    [pytest.param(b.text, id=f"{n}:{b.line}") for n in NAMES for b in blocks(n) if b.language == "json"],
)
def test_json_is_json(text: str) -> None:
    for line in text.splitlines():
        json.loads(line)


def paths_of_jobs(words: list[str]) -> Iterator[str]:
    """Fields of a StreamJob that a command names in a JSON path."""
    if any(re.match(r"(sj|streamjobs?)(/|$)", word) for word in words):
        for word in words:
            yield from re.findall(r"jsonpath=.*?\{\.([\w.]+)\}", word)
            yield from re.findall(r"^\{\.([\w.]+)\}$", word)


def has_field(path: str) -> bool:
    node = schema()
    for part in path.split("."):
        if part not in node.get("properties", {}):
            return False
        node = node["properties"][part]
    return True


@pytest.mark.parametrize("words", [*found("kubectl", "get"), *found("kubectl", "wait")])
def test_fields_of_json_paths_exist(words: list[str]) -> None:
    assert [path for path in paths_of_jobs(words) if not has_field(path)] == []
    asked = [word.partition("=condition=")[2] for word in words if "=condition=" in word]
    assert set(asked) <= {c.value for c in ConditionType}


@pytest.mark.parametrize("words", found("python", "-m", "pytest"))
def test_tests_that_are_run_exist(words: list[str]) -> None:
    assert [word for word in words if word.startswith("tests/") and not (ROOT / word).exists()] == []


FILE = re.compile(r"`([\w./-]+\.(?:py|md|sh|toml|ya?ml|txt|xml|in|svg))`")
# Files that a reader makes.
THEIRS = {
    *("streamjob.py", "orders.py", "nightly.py", "app.py", "main.py", "decom.sh"),
    *("orders.yaml", "orders-2.yaml", "reader.yaml"),
}


@cache
def tracked() -> frozenset[str]:
    """The files of the repository, and each end of their paths."""
    folders = (
        "operator",
        "tests",
        "dev",
        "docs",
        "charts",
        "examples",
        "requirements",
        "crds",
        "docker",
        ".ci",
    )
    files = [p for folder in folders for p in (ROOT / folder).rglob("*") if p.is_file()]
    files += [p for p in ROOT.iterdir() if p.is_file()]
    parts = [p.relative_to(ROOT).parts for p in files]
    return frozenset("/".join(p[i:]) for p in parts for i in range(len(p)))


@pytest.mark.parametrize("name", NAMES)
def test_files_in_a_sentence_exist(name: str) -> None:
    named = FILE.findall((ROOT / name).read_text())
    assert [
        f
        for f in named
        if not {f, Path(f).name} & THEIRS and "NAME" not in f and "NNNN" not in f and f not in tracked()
    ] == []


def test_classes_that_the_architecture_names_exist() -> None:
    text = CODE.findall((ROOT / DOCS / "architecture.md").read_text())
    named = {name for code in text for name in re.findall(r"`([A-Z][a-z]\w+)\.\w+(?:\(.*\))?`", code)}
    defined = {
        name
        for path in (ROOT / "operator").rglob("*.py")
        for name in re.findall(r"(?m)^class (\w+)", path.read_text())
    }
    assert len(named) >= 5
    assert named - defined == set()


def test_the_seeded_bug_of_the_recipe_exists() -> None:
    recipe = next(b for b in blocks("CONTRIBUTING.md") if b.text.lstrip().startswith("protocol."))
    seeded = [line.strip() for line in (ROOT / "tests/protocol/mutations.txt").read_text().splitlines()]
    wanted = [line.strip() for line in recipe.text.splitlines() if line.strip()]
    places = [seeded.index(line) for line in wanted]
    assert places == sorted(places)


@cache
def values() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "charts/streamjob/values.yaml").read_text())
    return loaded


def has_value(key: str) -> bool:
    node: Any = values()
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return False
        node = node[part]
    return True


@pytest.mark.parametrize("words", found("helm", "install"))
def test_values_of_the_chart_exist(words: list[str]) -> None:
    name, _, file = words[1].rpartition("/")[2].partition("-")  # a release's file has the version in its name
    chart = yaml.safe_load((ROOT / "charts" / name / "Chart.yaml").read_text())
    assert not file or file == f"{chart['version']}.tgz"
    if words[1].startswith("oci://"):
        assert words[1].endswith(f"/charts/{chart['name']}"), "the name under which a release publishes it"
        assert words[words.index("--version") + 1] == chart["version"]
    settings = [words[i + 1] for i, word in enumerate(words[:-1]) if word.startswith("--set")]
    keys = [pair.partition("=")[0] for setting in settings for pair in setting.split(",")]
    assert [key for key in keys if not has_value(key)] == []


@pytest.mark.parametrize("name", NAMES)
def test_values_of_the_chart_in_a_sentence_exist(name: str) -> None:
    only_of_the_chart = set(values()) - set(schema()["properties"]["spec"]["properties"])
    dotted = re.findall(r"`([a-z]\w+(?:\.\w+)+)(?:=\w+)?`", (ROOT / name).read_text())
    assert [key for key in dotted if key.partition(".")[0] in only_of_the_chart and not has_value(key)] == []


@pytest.mark.parametrize("words", found("docker", "build"))
def test_stages_of_the_dockerfile_exist(words: list[str]) -> None:
    text = (ROOT / "Dockerfile").read_text()
    target = words[words.index("--target") + 1]
    assert re.search(rf"(?m)^FROM .* AS {re.escape(target)}$", text)
    given = [words[i + 1].partition("=")[0] for i, word in enumerate(words) if word == "--build-arg"]
    assert [name for name in given if not re.search(rf"(?m)^ARG {name}\b", text)] == []


@pytest.mark.parametrize(
    "text",
    [pytest.param(b.text, id=f"{n}:{b.line}") for n in NAMES for b in blocks(n) if b.language == "python"],
)
def test_python_is_python(text: str) -> None:
    ast.parse(text)


@cache
def site() -> Site:
    generated = {
        "resource": resource.reference(),
        "command-line": command_line_page(),
        "life-cycle": life_cycle.table(),
    }
    built = Site(ROOT, generated)
    built.learn_sections()
    return built


def in_nav() -> set[str]:
    def leaves(node: Any) -> Iterator[str]:
        if isinstance(node, str):
            yield node
        for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from leaves(child)

    return set(leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))


def test_the_nav_has_every_page_and_nothing_else() -> None:
    pages = {path.relative_to(ROOT / DOCS).as_posix() for path in PAGES}
    named = in_nav()
    outside = {name.removeprefix("source/") for name in named if name.startswith("source/")}
    assert {name for name in named if not name.startswith("source/")} == pages
    assert [name for name in outside if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.relative_to(ROOT / DOCS).as_posix())
def test_what_a_page_includes_exists(path: Path) -> None:
    name = path.relative_to(ROOT / DOCS).as_posix()
    text = site().page(name, path.read_text(), f"{DOCS}/{name}")
    assert "<!-- include" not in text
    assert "```mermaid" not in text


def test_a_section_that_does_not_exist_is_noticed() -> None:
    with pytest.raises(BadPage, match="no section #nowhere"):
        section("# Title\n\n## Somewhere\n", "nowhere")


def test_a_section_ends_where_the_next_one_begins() -> None:
    text = "# A\n\nfirst\n\n```sh\n# no heading\n```\n\n## B\n\nsecond\n\n### C\n\nthird\n\n## D\n"
    assert section(text, "a") == "first\n\n```sh\n# no heading\n```\n"
    assert section(text, "b") == "second\n\n### C\n\nthird\n"


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("docs/operations.md#on-s3", "operations.md#on-s3"),
        ("examples/flights/app.py", "source/examples/flights/app.py.md"),
        ("CONTRIBUTING.md", "source/CONTRIBUTING.md"),
        ("#of-no-other-page", "#of-no-other-page"),
        ("https://example.org/x", "https://example.org/x"),
        ("README.md#streamjob", "index.md"),
    ],
)
def test_links_lead_to_the_same_place(link: str, shown: str) -> None:
    assert site().page("index.md", f"[x]({link}) `[x]({link})`", "README.md") == f"[x]({shown}) `[x]({link})`"


def test_links_of_assembled_pages_lead_somewhere() -> None:
    """As `make docs` asks for it: to a page, a picture, and an anchor that is there."""
    made = site()
    sources = {p.relative_to(ROOT / DOCS).as_posix(): p.read_text() for p in (ROOT / DOCS).rglob("*.md")}
    pages = {name: made.page(name, text, f"{DOCS}/{name}") for name, text in sources.items()}
    known: set[str] = set()
    while new := made.linked - known:
        known |= new
        for file in new:
            name = source_name(file).removeprefix(f"{DOCS}/")
            pages[name] = made.page(name, made.source_page(file), file)
    broken = []
    prose = {name: text for name, text in pages.items() if not re.search(r"\.(?!md$)\w+\.md$", name)}
    for name, text in prose.items():
        for _, link, _ in LINK.findall("".join(CODE.split(text)[::2])):
            path, _, anchor = link.partition("#")
            target = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
            there = target in pages or (ROOT / DOCS / target).is_file()
            shown = pages.get(target, "")
            anchors = {own for _, _, own in headings(shown)} | set(re.findall(r"\{#([\w.-]+)\}", shown))
            if not ELSEWHERE.match(link) and not (there and (not anchor or anchor in anchors)):
                broken.append(f"{name}: {link}")
    assert broken == []


@pytest.mark.parametrize("name", NAMES)
def test_links_lead_somewhere(name: str) -> None:
    text = "".join(CODE.split((ROOT / name).read_text())[::2])
    broken = []
    for _, link, _ in LINK.findall(text):
        if ELSEWHERE.match(link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        anchors = (
            [own for _, _, own in headings(target.read_text())]
            if target.suffix == ".md" and anchor
            else [anchor]
        )
        if not target.exists() or anchor not in anchors:
            broken.append(link)
    assert broken == []


def test_pictures_say_what_the_diagrams_say() -> None:
    """MkDocs cannot show the diagrams of docs/concepts.md. Pictures drawn by hand stand in for them."""
    diagrams = MERMAID.findall((ROOT / DOCS / "concepts.md").read_text())
    assert {d.split()[0] for d in diagrams} == set(PICTURES)
    for diagram in diagrams:
        picture = (ROOT / DOCS / PICTURES[diagram.split()[0]][0]).read_text()
        said = re.findall(r">([^<>\n]+)</text>", picture)
        if diagram.startswith("stateDiagram"):
            wanted = {s.value for s in lifecycle.TASK} | {
                e.value for row in lifecycle.TASK.values() for e in row
            }
        else:
            boxes = re.findall(r'\["([^"]+)"\]', diagram)
            wanted = {line for box in boxes for line in box.split("<br/>")} | set(
                re.findall(r"-- \"(\w+)\"", diagram)
            )
        assert wanted <= set(said), wanted - set(said)


def test_the_reference_has_every_field() -> None:
    page = resource.reference()

    def check(node: dict[str, Any], path: str) -> None:
        rows = page.partition(f"{{#{path}}}\n")[2].partition("\n##")[0]
        for name, child in node.get("properties", {}).items():
            assert f"\n| `{name}` | " in rows, f"{path}.{name}"
            check(child.get("items", child) if child.get("type") == "array" else child, f"{path}.{name}")

    assert set(re.findall(r"\]\(#([\w.]+)\)", page)) <= set(re.findall(r"\{#([\w.]+)\}", page))
    for top in ("spec", "status"):
        check(schema()["properties"][top], top)
    assert "| `mode` | string | `Savepoint` | `Savepoint`, `Checkpoint`, `NextEpoch`, `Handover` | " in page
    assert "| `gracePeriod` | duration | `60s` | up to 24 characters | " in page


def test_the_reference_has_every_option() -> None:
    page = command_line_page()
    for option in ("--local", "--state DIR", "--restore URI", "--conf KEY=VALUE", "--json"):
        assert f"| `{option}` | " in page
    for command in ("list", "describe", "verify", "export", "adopt", "delete"):
        assert f"\n### python -m streamjob.runtime savepoint {command}\n" in page
