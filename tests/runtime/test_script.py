"""The user's script: run as `python app.py` runs it, and what is said when it cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streamjob.protocol.messages import Application
from streamjob.runtime import script


@pytest.fixture(autouse=True)
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))


def run(tmp_path: Path, source: str, *args: str) -> Path:
    path = tmp_path / "app.py"
    path.write_text(source)
    script.run(Application(file=str(path), args=args))
    return tmp_path / "out"


def test_it_is_main_with_its_arguments_and_its_folder_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "helper_of_app.py").write_text("WORD = 'helped'")
    out = run(
        tmp_path,
        "import sys, pathlib, helper_of_app\n"
        "assert __name__ == '__main__'\n"
        f"pathlib.Path({str(tmp_path / 'out')!r}).write_text(' '.join(sys.argv[1:]) + helper_of_app.WORD)\n",
        "--x",
        "1",
    )
    assert out.read_text() == "--x 1helped"


@pytest.mark.parametrize(
    "ending", ["", "import sys; sys.exit()", "import sys; sys.exit(0)", "raise SystemExit"]
)
def test_endings_that_are_no_failure(tmp_path: Path, ending: str) -> None:
    run(tmp_path, ending)


@pytest.mark.parametrize(
    ("source", "error", "words"),
    [
        ("x = (1,\n", script.ScriptSyntaxError, "app.py, line 1"),
        ("import sys; sys.exit(3)", script.ScriptFailed, "left with 3"),
        ("import sys; sys.exit('no input')", script.ScriptFailed, "no input"),
        ("{}['orders']", script.ScriptFailed, "KeyError: 'orders'"),
        ("import not_installed_here", script.ScriptFailed, "not_installed_here"),
    ],
)
def test_failures_are_one_sentence(tmp_path: Path, source: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        run(tmp_path, source)


def test_a_script_that_cannot_be_parsed_has_no_effect(tmp_path: Path) -> None:
    with pytest.raises(script.ScriptSyntaxError):
        run(tmp_path, f"open({str(tmp_path / 'out')!r}, 'w')\n\nthis is: no python\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "application", [Application(file="/no/such.py"), Application(module="no_such_module_here")]
)
def test_a_missing_script_is_named(application: Application) -> None:
    with pytest.raises(script.ScriptNotFound, match=r"no.such"):
        script.run(application)


def test_what_a_retry_may_help_is_said() -> None:
    assert script.ScriptFailed.retryable
    assert not any(e.retryable for e in (script.ScriptSyntaxError, script.ScriptNotFound, script.NoQuery))
