"""docs/tutorials/schedule.md, the half for a laptop, word for word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import streamjob

PAGE = (Path(__file__).parents[2] / "docs" / "tutorials" / "schedule.md").read_text()
LAPTOP = PAGE[: PAGE.index("## On a cluster")]
SCRIPT = re.compile(r'^```python title="([\w.]+)"\n(.*?)^```', re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(sh|json)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_page_shows_what_it_leads_to(tmp_path: Path) -> None:
    ((name, script),) = SCRIPT.findall(LAPTOP)
    (tmp_path / name).write_text(script)
    source = str(Path(str(streamjob.__file__)).parents[1])
    said: list[str] = []
    for kind, text in BLOCK.findall(LAPTOP):
        if kind == "json":
            shown = [line for line in said[-1].splitlines() if line.startswith("{")]
            assert sorted(shown) == sorted(text.splitlines())
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text.replace("python -m", f"{sys.executable} -m")],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": source, "PYSPARK_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        said.append(done.stdout)
    assert "the next start resumes from it" in said[0]
    assert "drained, nothing is left to resume" in said[-1]
    assert len(said) == 3
