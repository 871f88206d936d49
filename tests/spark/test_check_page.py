"""The commands of docs/tutorials/check.md, word for word, and what they show."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import streamjob
from dev.demo.waiting import PATIENCE

from .feeds import eventually
from .terminal import Terminal

PAGES = Path(__file__).parents[2] / "docs" / "tutorials"
BLOCK = re.compile(r"^```(sh|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SCRIPT = re.compile(r'^```python title="orders.py"\n(.*?)^```', re.MULTILINE | re.DOTALL)
INPUT = re.compile(r"^cat > in/1.json <<'END'\n(.*?)^END", re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the tutorial on a laptop, when the job was stopped."""
    laptop = (PAGES / "laptop.md").read_text()
    script, target = tmp_path / "orders.py", tmp_path / "out"
    (text,) = SCRIPT.findall(laptop)
    script.write_text(text)
    (rows,) = INPUT.findall(laptop)
    (tmp_path / "in").mkdir()
    (tmp_path / ".streamjob").mkdir()
    (tmp_path / "in" / "1.json").write_text(rows)
    arguments = (str(tmp_path / "in"), str(target))
    with Terminal(tmp_path / ".streamjob" / "orders", script, arguments=arguments) as terminal:
        eventually(lambda: list(target.glob("*.json")), "the first minute")
        assert terminal.interrupt().ended()[0] == 0
    return tmp_path


def types(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(streamjob.__file__).parents[1]),
        "PYSPARK_PYTHON": sys.executable,
        "COLUMNS": "100",
    }
    return subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, check=False,
        timeout=PATIENCE,
    )  # fmt: skip


@pytest.mark.slow
def test_the_page_says_what_is_shown(folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    codes, said = [], ""
    for kind, text in BLOCK.findall((PAGES / "check.md").read_text()):
        if kind == "text":
            for line in text.splitlines():
                pattern = re.sub(r"\d+", r"\\d+", re.escape(line).replace(r"\ ", " "))
                assert re.search(f"^{pattern}", said, re.MULTILINE), (line, said)
        elif "kubectl" not in text:
            done = types(folder, text)
            codes.append(done.returncode)
            said = done.stdout
    assert codes == [0, 1, 1, 0], said
    assert json.loads(said)["verdicts"][0]["outcome"] == "Continues"
    made = {folder / f"{name}.py" for name in ("capitals", "lengths", "sales")}
    assert {*folder.rglob("*")} == {*before, *made}
