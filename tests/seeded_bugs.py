"""Seeded bugs: mistakes that somebody could make. Each is a small change to the syntax tree of one function.

A file of them is indented text:

    protocol.flight                                  the module, below `streamjob`
      Flight.stored                                  the function, class or constant
        closed as soon as stored                     what is wrong
          drop If[durable].test.values[durable]      the changes

A change names a place and is one of

    drop PLACE                  a statement, operand, argument, element or condition goes
    replace PLACE: CODE         other code stands there; long code follows in deeper lines
    swap PLACE, PLACE           each takes the other's place

In CODE, `_` is what stood there and `_1`, `_2`, … are its parts in the order of the source: the operands of a
condition, the function and the arguments of a call, the target and the value of an assignment.

A place is a path of steps with dots between them. A step is a field of the node in Python's `ast` (`test`,
`value`, `args`), or a class of `ast`: then it is a node of this class anywhere below. Where there are
several, brackets choose one: by a word that only this one mentions (an attribute, a function, a keyword or a
text, never a local variable; of a call, the name of what it calls), or by its number and how many there are
(`If[2 of 3]`, `If[durable][1 of 2]`). A place must be there exactly once.

    python -m tests.seeded_bugs                                  checks that each place is there
    python -m tests.seeded_bugs protocol.flight                  shows the bugs of a module as differences
"""

from __future__ import annotations

import ast
import builtins
import difflib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import streamjob

from . import gate

PACKAGE = Path(str(streamjob.__file__)).parent
STEP = re.compile(r"(\w+)((?:\[[^\]]+\])*)$")
NUMBER = re.compile(r"(\d+) of (\d+)$")
PART = re.compile(r"_(\d*)$")
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # the statements below a statement


@dataclass(frozen=True)
class SeededBug:
    module: str
    """Below `streamjob`, with dots."""
    function: str
    title: str
    changes: tuple[str, ...]


class NotApplicable(Exception):
    """A bug does not fit the source: its place is not there, or not once, or its code has an unknown name."""


def load(file: Path) -> list[SeededBug]:
    return parse(file.read_text())


def parse(text: str) -> list[SeededBug]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [
        SeededBug(
            module, function, title, tuple("\n".join([change, *code]) for change, code in _outline(changes))
        )
        for module, functions in _outline(lines)
        for function, titles in _outline(functions)
        for title, changes in _outline(titles)
    ]


def _outline(lines: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each line that is not indented, with the lines below it; these have two spaces less."""
    starts = [n for n, line in enumerate(lines) if not line.startswith(" ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        yield lines[start], [line[2:] for line in lines[start + 1 : end]]


def cases(file: Path) -> list[Any]:
    """For `parametrize`, by title. Each commit has the bugs that are new or of a module that has changed, and
    one in twenty of the others: the rest is `slow`.
    """
    bugs = load(file)
    known = {*parse(gate.before(str(file.relative_to(gate.ROOT))) or file.read_text())}
    due = {bug for bug in bugs if bug not in known or gate.changed(path(bug.module))}
    due |= {*gate.one_in(20, [bug for bug in bugs if bug not in due])}
    return [pytest.param(bug, id=bug.title, marks=[] if bug in due else [pytest.mark.slow]) for bug in bugs]


def path(module: str) -> str:
    """From the top of the repository."""
    return f"operator/streamjob/{module.replace('.', '/')}.py"


def source(module: str) -> str:
    return PACKAGE.joinpath(*module.split(".")).with_suffix(".py").read_text()


def seeded(bug: SeededBug) -> ast.Module:
    """The bug's module with the bug in it.

    :raises NotApplicable: the source has changed, and the bug has to follow.
    """
    return with_bug(bug, source(bug.module))


def with_bug(bug: SeededBug, text: str) -> ast.Module:
    """
    :param text: the source of the module.
    :raises NotApplicable: as `seeded`.
    """
    module = ast.parse(text)
    try:
        whole = _named(module, bug.function)
        known = _names_known_in(module, whole)
        new: dict[ast.AST, list[ast.AST]] = {}
        for change in bug.changes:
            new |= _changed(whole, change, known)
        _edited(module, new)
        return ast.fix_missing_locations(module)
    except NotApplicable as e:
        raise NotApplicable(f"{bug.module}:{bug.function}: {bug.title}: {e}") from None


def difference(bug: SeededBug) -> str:
    """What the bug changes, without comments and formatting."""
    before, after = (ast.unparse(t).splitlines() for t in (ast.parse(source(bug.module)), seeded(bug)))
    lines = list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    return "\n".join(line for line in lines if not line.startswith("@@"))


def _named(node: ast.AST, name: str) -> ast.AST:
    for part in name.split("."):
        found = {n: s for s in getattr(node, "body", []) for n in _names(s)}
        if part not in found:
            raise NotApplicable(f"no {part}; there is {', '.join(found)}")
        node = found[part]
    return node


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _names_known_in(module: ast.Module, whole: ast.AST) -> set[str]:
    names = {*dir(builtins), *(name for statement in module.body for name in _names(statement))}
    names |= {(n.asname or n.name).split(".")[0] for n in ast.walk(module) if isinstance(n, ast.alias)}
    return names | {n.id for n in ast.walk(whole) if isinstance(n, ast.Name)} | _arguments(whole)


def _arguments(node: ast.AST) -> set[str]:
    return {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}


@cache
def _words_of_the_package() -> set[str]:
    text = " ".join(file.read_text() for file in PACKAGE.rglob("*.py"))
    return {*re.findall(r"\w+", text), *(name for kind in (str, list, dict, set) for name in dir(kind))}


def _changed(whole: ast.AST, change: str, known: set[str]) -> dict[ast.AST, list[ast.AST]]:
    """What comes in the place of some nodes."""
    verb, _, rest = change.partition(" ")
    if verb == "drop":
        return {_place(whole, rest): []}
    if verb == "swap":
        one, other = (_place(whole, path) for path in rest.split(", "))
        return {one: [other], other: [one]}
    path, colon, code = rest.partition(":")
    if verb != "replace" or not colon:
        raise NotApplicable(f"`{change}` is no change: drop PLACE, replace PLACE: CODE, swap PLACE, PLACE")
    node = _place(whole, path)
    return {node: _code(code.strip(), node, known)}


def _place(whole: ast.AST, path: str) -> ast.AST:
    local = {n.id for n in ast.walk(whole) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    local |= _arguments(whole)
    node = whole
    for step in path.split("."):
        match = STEP.match(step)
        if match is None:
            raise NotApplicable(f"`{step}` in `{path}` is no step")
        name, brackets = match.groups()
        found = _candidates(node, name)
        for choice in re.findall(r"\[([^\]]+)\]", brackets):
            number = NUMBER.match(choice)
            if number is None:
                found = [n for n in found if choice in _words(n, local)]
            elif len(found) == int(number[2]):
                found = [found[int(number[1]) - 1]]
            else:
                raise NotApplicable(f"`{step}` in `{path}`: there are {len(found)}:{_listed(found)}")
        if len(found) != 1:
            listed = _listed(found or _candidates(node, name))
            raise NotApplicable(f"`{step}` in `{path}` is there {len(found)} times. Choose from:{listed}")
        node = found[0]
    return node


def _candidates(node: ast.AST, name: str) -> list[ast.AST]:
    if name in node._fields:
        value = getattr(node, name)
        return [n for n in (value if isinstance(value, list) else [value]) if n is not None]
    kind = getattr(ast, name, None)
    if kind is None:
        raise NotApplicable(f"`{name}` is no field of {type(node).__name__} and no class of ast")
    return [n for n in _below(node) if isinstance(n, kind)]


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """In the order of the source."""
    for child in ast.iter_child_nodes(node):
        yield child
        yield from _below(child)


def _words(node: ast.AST, local: set[str]) -> set[str]:
    """Names by which a place can be known that stay when local variables are renamed.

    Of a block its head counts.
    """
    if isinstance(node, ast.Call):
        return _words(node.func, local) if isinstance(node.func, (ast.Name, ast.Attribute)) else set()
    if isinstance(node, (ast.Attribute, ast.keyword)):
        return {str(getattr(node, "attr", None) or getattr(node, "arg", None))}
    words: set[str] = set()
    nodes = [node]
    for n in nodes:
        if isinstance(n, ast.Name):
            words |= {n.id} - local
        elif isinstance(n, ast.Constant):
            words.add(str(n.value))
        elif isinstance(n, (ast.Attribute, ast.keyword)):
            words |= _words(n, local)
        for field, value in ast.iter_fields(n):
            if not (isinstance(n, (ast.stmt, ast.ExceptHandler)) and field in BLOCKS):
                nodes += [
                    v for v in (value if isinstance(value, list) else [value]) if isinstance(v, ast.AST)
                ]
    return words


def _listed(nodes: Sequence[ast.AST]) -> str:
    lines = (f"{n} of {len(nodes)}: {ast.unparse(node).splitlines()[0]}" for n, node in enumerate(nodes, 1))
    return "".join(f"\n    {line}" for line in lines)


def _code(code: str, old: ast.AST, known: set[str]) -> list[ast.AST]:
    """:param known: names that the code may use, besides those that it defines itself."""
    new = ast.parse(code)
    nodes = list(ast.walk(new))
    names = {n.id for n in nodes if isinstance(n, ast.Name) and not PART.match(n.id)}
    names -= known | {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names |= {n.attr for n in nodes if isinstance(n, ast.Attribute)} - _words_of_the_package()
    if names:
        raise NotApplicable(f"nothing is called {', '.join(sorted(names))} in `{code}`")
    if not isinstance(old, ast.stmt):
        return [_Filled(old).visit(getattr(new.body[0], "value", None) or new.body[0])]
    return [_Filled(old).visit(statement) for statement in new.body]


class _Filled(ast.NodeTransformer):
    """Puts what stood there into the new code."""

    def __init__(self, old: ast.AST) -> None:
        wrapped = (ast.keyword, ast.Starred, ast.FormattedValue)
        parts = [c.value if isinstance(c, wrapped) else c for c in ast.iter_child_nodes(old)]
        self.parts = [old, *(p for p in parts if isinstance(p, (ast.expr, ast.stmt)))]

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        filled = self.visit(node.value)
        return filled if isinstance(filled, ast.stmt) else ast.Expr(filled)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        match = PART.match(node.id)
        if match is None:
            return node
        if int(match[1] or 0) >= len(self.parts):
            raise NotApplicable(f"`{node.id}`: there are {len(self.parts) - 1} parts")
        part = deepcopy(self.parts[int(match[1] or 0)])
        if hasattr(part, "ctx"):
            part.ctx = node.ctx
        return part


def _edited(node: ast.AST, new: Mapping[ast.AST, Sequence[ast.AST]]) -> ast.AST:
    """The node with other nodes below it. In a list any number of them may come, elsewhere one for one."""
    if isinstance(node, ast.Dict):
        node.keys = [key for key, value in zip(node.keys, node.values, strict=True) if new.get(value) != []]
    for field, value in ast.iter_fields(node):
        if isinstance(value, list):
            kept = [n for old in value for n in _instead(old, new)]
            setattr(node, field, kept or ([ast.Pass()] if field == "body" and value else []))
        elif isinstance(value, ast.AST):
            one = _instead(value, new)
            if len(one) != 1:
                raise NotApplicable(f"{type(node).__name__} cannot be without its {field}")
            setattr(node, field, one[0])
    return node.values[0] if isinstance(node, ast.BoolOp) and len(node.values) == 1 else node


def _instead(old: Any, new: Mapping[ast.AST, Sequence[ast.AST]]) -> Sequence[Any]:
    if not isinstance(old, ast.AST):  # the names of `global`, the key None of `{**a}`
        return [old]
    return new[old] if old in new else [_edited(old, new)]


def main(names: Sequence[str]) -> str:
    """
    :param names: of modules, or parts of titles; without any, all bugs are checked and none is shown.
    """
    bugs = [bug for file in sorted(Path(__file__).parent.glob("*/mutations.txt")) for bug in load(file)]
    shown = [bug for bug in bugs if any(name == bug.module or name in bug.title for name in names)]
    for bug in [] if names else bugs:
        seeded(bug)
    blocks = [f"{bug.module}:{bug.function}: {bug.title}\n{difference(bug)}\n" for bug in shown]
    return "\n".join(blocks) if names else f"{len(bugs)} seeded bugs fit the source."


if __name__ == "__main__":
    print(main(sys.argv[1:]))
