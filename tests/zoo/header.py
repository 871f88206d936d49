"""What a script says of itself in its docstring. Read, never imported."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomllib

from . import oracles
from .oracles import Row

SCRIPTS = Path(__file__).parent / "scripts"
WAYS = ("plain", "runtime", "stops", "kills", "drain")


@dataclass(frozen=True)
class Script:
    """See the package's docstring for the fields."""

    name: str
    path: Path
    shows: str
    before: int = 6
    during: int = 0
    ends: bool = True
    exit: int = 0
    raises: str = ""
    refused: str = ""
    at_end: str = ""
    at_stop: str = ""
    to_its_end: str = ""
    arguments: list[str] = field(default_factory=list)
    compare_stdout: bool = True
    independent: bool = False
    excluded: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    only: dict[str, list[str]] = field(default_factory=dict)
    repeats: dict[str, str] = field(default_factory=dict)

    @property
    def ways(self) -> tuple[str, ...]:
        if self.refused:
            return ("plain", "runtime")
        return tuple(way for way in WAYS if way not in self.excluded)

    def expected(self, output: str, rows: list[Row], *, closed: bool) -> list[Any]:
        """What an output holds when all of `rows` were read."""
        found = eval(self.outputs[output], {**vars(oracles), "rows": rows, "closed": closed})
        assert isinstance(found, list)
        return found


def names() -> list[str]:
    return sorted(
        path.stem for path in SCRIPTS.iterdir() if path.suffix == ".py" or (path / "main.py").exists()
    )


def load(name: str) -> Script:
    folder = SCRIPTS / name / "main.py"
    path = folder if folder.exists() else SCRIPTS / f"{name}.py"
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    shows, found, header = text.partition("[zoo]")
    assert found, f"{path} has no [zoo] in its docstring"
    said = tomllib.loads(found + header)["zoo"]
    script = Script(name, path, " ".join(shows.split()), excluded=said.pop("not", {}), **said)
    assert script.ends or script.during, (
        f"{path}: it runs until it is ended, and needs a file that comes late"
    )
    if script.to_its_end:
        script.excluded.update(dict.fromkeys(("stops", "kills", "drain"), script.to_its_end))
    if not script.ends:
        script.excluded["runtime"] = "it does not end by itself: see stops"
    unknown = (script.excluded.keys() | {w for ways in script.only.values() for w in ways}) - set(WAYS)
    assert not unknown, f"{path}: no such way: {unknown}"
    strays = (script.only.keys() | script.repeats.keys()) - script.outputs.keys()
    assert not strays, f"{path}: no such output: {strays}"
    return script
