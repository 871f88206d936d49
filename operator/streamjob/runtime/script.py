"""Runs the user's script as `python app.py` would, and says what is wrong with it in one sentence."""

from __future__ import annotations

import importlib.util
import runpy
import sys
import traceback
from pathlib import Path

from ..protocol.errors import StreamJobError
from ..protocol.messages import Application
from .causes import one_line


class ScriptNotFound(StreamJobError):
    reason = "ScriptNotFound"


class ScriptSyntaxError(StreamJobError):
    reason = "ScriptSyntaxError"


class ScriptFailed(StreamJobError):
    """It raised or left with a code other than 0. What it needs may be back at the next attempt."""

    reason = "ScriptFailed"
    retryable = True


class NoQuery(StreamJobError):
    """It came to its end without a streaming query."""

    reason = "NoQueryStarted"


def run(application: Application) -> None:
    """Run the script to its end in this thread.

    :raises ScriptNotFound, ScriptSyntaxError: it cannot be run.
    :raises ScriptFailed: it raised; the traceback is on stderr, its last line in the message.
    :raises StreamJobError: one of ours that the script let pass.
    """
    try:
        if application.file is not None:
            _run_file(application.file, application.args)
        else:
            assert application.module is not None
            if importlib.util.find_spec(application.module) is None:
                raise ScriptNotFound(f"module {application.module} is not in the image", remedy=_WHERE)
            sys.argv = [application.module, *application.args]
            runpy.run_module(application.module, run_name="__main__", alter_sys=True)
    except StreamJobError:
        raise
    except SystemExit as e:
        if e.code not in (None, 0):
            raise ScriptFailed(
                f"{_name(application)} left with {e.code!r}", remedy="See the driver's log"
            ) from None
    except SyntaxError as e:
        raise ScriptSyntaxError(
            f"{e.filename}, line {e.lineno}: {e.msg}", remedy="Mend the script and build its image again"
        ) from None
    except BaseException as e:
        raise _failed(application, e) from e


_WHERE = "Set spec.application to a script that the image or a volume of the job holds"


def _run_file(file: str, args: tuple[str, ...]) -> None:
    path = Path(file)
    if not path.is_file():
        raise ScriptNotFound(f"{file} is not a file in the driver's image or volumes", remedy=_WHERE)
    # Before anything of it runs: a script that cannot be parsed has no effect at all.
    compile(path.read_bytes(), file, "exec")
    sys.argv = [file, *args]
    sys.path.insert(0, str(path.parent))
    runpy.run_path(file, run_name="__main__")


def _failed(application: Application, error: BaseException) -> ScriptFailed:
    traceback.print_exception(type(error), error, error.__traceback__)
    return ScriptFailed(
        f"{_name(application)}: {type(error).__name__}: {one_line(error)}",
        remedy="See the driver's log for the traceback",
    )


def _name(application: Application) -> str:
    return application.file or application.module or "the script"
