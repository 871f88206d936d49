"""The user's script: run as `python app.py` runs it, and what is said when it cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from streamjob.protocol.messages.driver_config import Application
from streamjob.runtime.process import script
from streamjob.runtime.process.script import Outcome


@pytest.fixture(autouse=True)
def interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])


def run(tmp_path: Path, source: str, *args: str) -> Outcome:
    path = tmp_path / "app.py"
    path.write_text(source)
    return script.run(Application(file=str(path), args=args), str(path), lambda: None)


def test_it_is_main_with_its_arguments_and_its_folder_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "helper_of_app.py").write_text("WORD = 'helped'")
    outcome = run(
        tmp_path,
        "import sys, pathlib, helper_of_app\n"
        "assert __name__ == '__main__'\n"
        f"pathlib.Path({str(tmp_path / 'out')!r}).write_text(' '.join(sys.argv[1:]) + helper_of_app.WORD)\n",
        "--x",
        "1",
    )
    assert outcome == Outcome(0)
    assert (tmp_path / "out").read_text() == "--x 1helped"


def test_what_it_leaves_behind_still_finds_its_module(tmp_path: Path) -> None:
    """A function of a query that runs on, a thread, an atexit handler, pickle."""
    run(
        tmp_path, "import pickle\nWORD = 'kept'\nclass Row: pass\ndef f(): return WORD, pickle.dumps(Row())\n"
    )
    word, _ = sys.modules["__main__"].f()
    assert word == "kept"


@pytest.mark.parametrize(
    "ending", ["", "import sys; sys.exit()", "import sys; sys.exit(0)", "raise SystemExit"]
)
def test_endings_that_are_no_failure(tmp_path: Path, ending: str) -> None:
    assert run(tmp_path, ending) == Outcome(0)


@pytest.mark.parametrize(
    ("source", "error", "words", "code"),
    [
        ("x = (1,\n", script.ScriptSyntaxError, "app.py, line 1", 1),
        ("import sys; sys.exit(3)", script.ScriptFailed, "exited with code 3", 3),
        ("import sys; sys.exit(-1)", script.ScriptFailed, "exited with code -1", 255),
        ("import sys; sys.exit('no input')", script.ScriptFailed, "no input", 1),
        ("{}['orders']", script.ScriptFailed, "KeyError: 'orders'", 1),
        ("raise KeyboardInterrupt", script.ScriptFailed, "KeyboardInterrupt", 130),
        ("import not_installed_here", script.ScriptFailed, "not_installed_here", 1),
    ],
)
def test_failures_are_one_sentence_and_the_exit_code_is_pythons(
    tmp_path: Path, source: str, error: type[Exception], words: str, code: int
) -> None:
    outcome = run(tmp_path, source)
    assert isinstance(outcome.error, error)
    assert words in outcome.error.message
    assert outcome.code == code


def test_a_traceback_shows_the_script_and_nothing_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(tmp_path, "def f():\n    raise LookupError('gone')\nf()\n")
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "Traceback (most recent call last):"
    assert "app.py" in shown[1]
    assert shown[-1] == "LookupError: gone"


def test_a_script_that_cannot_be_parsed_has_no_effect(tmp_path: Path) -> None:
    outcome = run(tmp_path, f"open({str(tmp_path / 'out')!r}, 'w')\n\nthis is: no python\n")
    assert isinstance(outcome.error, script.ScriptSyntaxError)
    assert not (tmp_path / "out").exists()


def test_what_is_no_python_is_said_by_the_name_in_the_spec(tmp_path: Path) -> None:
    (tmp_path / "copy.py").write_bytes(b"\x00\x01")
    outcome = script.run(Application(file="s3a://b/app.py"), str(tmp_path / "copy.py"), lambda: None)
    assert isinstance(outcome.error, script.ScriptSyntaxError)
    assert outcome.error.message.startswith("s3a://b/app.py")


@pytest.mark.parametrize(
    "application", [Application(file="/no/such.py"), Application(module="no_such_module_here")]
)
def test_a_missing_script_is_named(application: Application) -> None:
    outcome = script.run(application, application.file, lambda: None)
    assert isinstance(outcome.error, script.ScriptNotFound)
    assert (application.file or application.module or "?") in outcome.error.message


def test_what_a_retry_may_help_is_said() -> None:
    assert script.ScriptFailed.retryable
    assert not any(e.retryable for e in (script.ScriptSyntaxError, script.ScriptNotFound, script.NoQuery))


def test_the_script_is_over_before_its_error_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ends a script must not end the hook that tells of its error."""
    seen: list[str] = []
    monkeypatch.setattr(sys, "excepthook", lambda *_: seen.append("reported"))
    path = tmp_path / "app.py"
    path.write_text("raise ValueError\n")
    outcome = script.run(Application(file=str(path)), str(path), lambda: seen.append("over"))
    assert (outcome.code, seen) == (1, ["over", "reported"])
