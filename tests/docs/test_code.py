"""What docs/security.md says of the code as a whole: no format that runs what it reads, no shell, no root."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRODUCT = ROOT / "operator" / "streamjob"
# Formats whose reader may run code or make any object, and ways to run text.
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "xml", "jsonpickle"}
CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen"}
# The one place that runs text: the user's own script. And what writes the CRD, which reads nothing.
MAY_RUN = {"runtime/process/script.py"}
MAY_WRITE_YAML = {"api/__main__.py", "convert/report.py"}
# The command that a user runs on files of their own, with a loader that makes nothing but plain values.
MAY_READ_YAML = {"convert/cli.py"}


def sources() -> Iterator[tuple[str, ast.AST]]:
    for path in PRODUCT.rglob("*.py"):
        yield str(path.relative_to(PRODUCT)), ast.parse(path.read_text())


def imported(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").partition(".")[0])
    return names


def called(tree: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def test_only_json_is_read() -> None:
    found = {(path, name) for path, tree in sources() for name in imported(tree) & MODULES}
    assert {path for path, _ in found} <= MAY_WRITE_YAML | MAY_READ_YAML, found


def test_yaml_is_read_safely() -> None:
    trees = dict(sources())
    reading = {"yaml.load", "yaml.load_all", "yaml.safe_load", "yaml.safe_load_all"}
    assert {path for path, tree in trees.items() if called(tree) & reading} == MAY_READ_YAML
    for path in MAY_READ_YAML:
        bases = {
            node.name: [ast.unparse(base) for base in node.bases]
            for node in ast.walk(trees[path])
            if isinstance(node, ast.ClassDef)
        }
        calls = [
            n for n in ast.walk(trees[path]) if isinstance(n, ast.Call) and ast.unparse(n.func) in reading
        ]
        loaders = [
            ast.unparse(word.value) for call in calls for word in call.keywords if word.arg == "Loader"
        ]
        assert [bases[loader] for loader in loaders] == [["yaml.SafeLoader"]] * len(calls)


def test_nothing_runs_text_but_the_users_script() -> None:
    found = {(path, call) for path, tree in sources() for call in called(tree) & CALLS}
    assert {path for path, _ in found} <= MAY_RUN, found


def test_no_shell() -> None:
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "shell":
                pytest.fail(f"{path} starts a shell")


@pytest.mark.parametrize("image", ["Dockerfile", "dev/kafka/Dockerfile"])
def test_no_image_runs_as_root(image: str) -> None:
    """Nobody builds on these stages: they are what runs."""
    stages = re.split(r"(?m)^FROM ", (ROOT / image).read_text())[1:]
    names = [re.search(r" AS (\S+)", s.splitlines()[0]) for s in stages]
    used = {m[1] for s in stages for m in re.finditer(r"(?:^|--from=)(\w[\w-]*) ?", s)}
    final = [s for s, n in zip(stages, names, strict=True) if n is not None and n[1] not in used]
    assert final
    for stage in final:
        users = re.findall(r"(?m)^USER (\d+):", stage)
        assert users, stage.splitlines()[0]
        assert users[-1] != "0", stage.splitlines()[0]
