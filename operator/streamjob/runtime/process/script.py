"""Runs the user's script as `python app.py` does: same module, arguments, path, traceback and exit code."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import runpy
import sys
import traceback
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException

from ...jvm.errors import one_line
from ...protocol.errors import StreamJobError
from ...protocol.messages.driver_config import Application
from ..driver.script.interruption import calls_script


class ScriptNotFound(StreamJobError):
    reason = "ScriptNotFound"


class ScriptSyntaxError(StreamJobError):
    reason = "ScriptSyntaxError"


class ScriptFailed(StreamJobError):
    """The script raised an exception or exited with a code other than 0.

    It is retryable, because what the script needs may be available at the next attempt.
    """

    reason = "ScriptFailed"
    retryable = True


class NoQuery(StreamJobError):
    """The script ended without starting a streaming query."""

    reason = "NoQueryStarted"


@dataclass(frozen=True)
class Outcome:
    """How the main thread of the script ended.

    :param code: the exit code that Python would return.
    :param error: why the script failed, None if `code` is 0.
    :param by_query: the script did not catch the exception of a failed query.
    """

    code: int
    error: StreamJobError | None = None
    by_query: bool = False


def run(application: Application, script: str | None, at_end: Callable[[], None]) -> Outcome:
    """Run the script to its end in the calling thread, which must be the main thread.

    An exception of the script is printed as Python prints it. It never propagates.

    :param script: path of the script, None for a module.
    :param at_end: called when the script has ended, before anything is said of it.
    """
    # Absolute, because the script may change the working directory.
    file = None if script is None else Path(script).absolute()
    try:
        try:
            _run(application, script, file)
        finally:
            at_end()
    except SystemExit as e:
        return _left(application, e)
    except (ScriptNotFound, ScriptSyntaxError) as e:
        return Outcome(1, e)
    except BaseException as e:
        _print(e, file)
        if isinstance(e, StreamJobError):
            return Outcome(1, e)
        code = 130 if isinstance(e, KeyboardInterrupt) else 1
        return Outcome(code, _failed(application, e), isinstance(e, StreamingQueryException))
    return Outcome(0)


@calls_script
def _run(application: Application, script: str | None, file: Path | None) -> None:
    if file is not None:
        _run_file(file, [str(script), *application.args], application)
        return
    assert application.module is not None
    if importlib.util.find_spec(application.module) is None:
        raise ScriptNotFound(f"module {application.module} is not in the image", remedy=_WHERE)
    sys.argv = [application.module, *application.args]
    runpy.run_module(application.module, run_name="__main__", alter_sys=True)


_WHERE = "Set spec.application to a script that the image or a volume of the job holds, or to a URI"


@calls_script
def _run_file(path: Path, arguments: list[str], application: Application) -> None:
    if not path.is_file():
        raise ScriptNotFound(
            f"{application.file} is not a file in the driver's image or volumes", remedy=_WHERE
        )
    # Compile all of it before any of it runs: a script that cannot be parsed has no effect.
    try:
        code = compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except SyntaxError as e:
        _print(e, None)
        line = f", line {e.lineno}" if e.lineno else ""
        raise ScriptSyntaxError(f"{application.file}{line}: {e.msg}", remedy="Fix <script>") from None
    except ValueError as e:  # null bytes
        raise ScriptSyntaxError(f"{application.file}: {e}", remedy="Fix <script>") from None
    sys.argv = arguments
    _put_on_path(path.resolve().parent)  # as Python does: the folder of the link's target
    # It stays there after the script has ended: its threads, query functions and atexit handlers look up
    # their module.
    module = types.ModuleType("__main__")
    module.__file__ = str(path)
    module.__loader__ = importlib.machinery.SourceFileLoader("__main__", str(path))
    module.__dict__.update(__builtins__=__builtins__, __cached__=None, __annotations__={})
    sys.modules["__main__"] = module
    exec(code, module.__dict__)  # noqa: S102


def _put_on_path(folder: Path) -> None:
    """Put the script's folder first on the module search path, in place of the entry of `python -m`.

    `python -m` puts the working directory there, `python app.py` the script's folder, and with the option -P
    both put nothing. Our own modules are found all the same: a package knows its folder.
    """
    if getattr(sys.flags, "safe_path", sys.flags.isolated):  # new in Python 3.11
        return
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    runs_runtime = spec is not None and spec.name == f"{__package__.rpartition('.')[0]}.__main__"
    with suppress(FileNotFoundError):  # the working directory has been deleted: `-m` put nothing there
        if runs_runtime and sys.path[:1] == [str(Path.cwd())]:
            del sys.path[0]
    sys.path.insert(0, str(folder))


def _left(application: Application, exit_: SystemExit) -> Outcome:
    """The outcome of sys.exit(), as in Python: None is code 0; what is no number is printed and is code 1."""
    if exit_.code is None:
        return Outcome(0)
    if not isinstance(exit_.code, int):
        print(exit_.code, file=sys.stderr)
        return Outcome(1, ScriptFailed(f"{_name(application)} exited with {exit_.code!r}", remedy=_LOG))
    code = exit_.code & 0xFF
    if code == 0:
        return Outcome(0)
    return Outcome(code, ScriptFailed(f"{_name(application)} exited with code {exit_.code}", remedy=_LOG))


_LOG = "See <log>"


def _print(error: BaseException, file: Path | None) -> None:
    """Print the error through the script's excepthook, without the runtime's frames above the script's."""
    trace = error.__traceback__
    own = None if file is None else str(file)
    while own is not None and trace is not None and trace.tb_frame.f_code.co_filename != own:
        trace = trace.tb_next
    shown = type(error), error.with_traceback(trace or error.__traceback__), trace or error.__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = shown
    flush()
    try:
        sys.excepthook(*shown)
    except Exception:  # as Python does: print the hook's exception, then the original one
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exc()
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(*shown)


def flush() -> None:
    """Flush the standard streams. The script may have closed or replaced them, or their reader is gone."""
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)
    for stream in streams:
        with suppress(Exception):  # the stream may be the script's own
            stream.flush()


def _failed(application: Application, error: BaseException) -> ScriptFailed:
    return ScriptFailed(
        f"{_name(application)}: {type(error).__name__}: {one_line(error)}",
        remedy="See <log> for the traceback",
    )


def _name(application: Application) -> str:
    return application.file or application.module or "the script"
