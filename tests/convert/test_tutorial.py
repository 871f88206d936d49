"""docs/tutorials/sparkapplication.md shows what the converter writes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from streamjob.convert.cli import DONE, convert

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorials" / "sparkapplication.md").read_text()
EXAMPLE = "examples/moving-in/sparkapplication.yaml"


def test_the_page_shows_the_result(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"^streamjob convert (.*?[^\\])$", PAGE, re.MULTILINE | re.DOTALL)
    first, second = (shlex.split(c.replace("\\\n", " ").partition(">")[0]) for c in commands)
    assert first == [EXAMPLE]
    assert convert(first) == DONE
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert capsys.readouterr().err.startswith(shown)
    assert second[-1] == EXAMPLE
    assert convert(second) == DONE
    (yaml,) = re.findall(r'```yaml title="orders.yaml"\n(.*?)```', PAGE, re.DOTALL)
    assert capsys.readouterr().out == yaml
