"""The entry point of `streamjob` and `kubectl streamjob`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .table import usage

NO_FILES = ":4"  # cobra's ShellCompDirectiveNoFileComp
INSTALL = (
    "streamjob: {command} needs the packages of the extra `{extra}`: "
    "pipx install './streamjob-VERSION-py3-none-any.whl[{extra}]'"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    :returns: the exit code.
    """
    try:
        return _main(arguments)
    except BrokenPipeError:  # nobody reads on, `| head` for example
        # What is left in the buffer would fail once more when Python exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _main(arguments: Sequence[str] | None) -> int:
    if os.environ.get("STREAMJOB_COMPLETE"):
        return complete()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in ([], ["-h"], ["--help"]):  # click takes longer to import than this to answer
        sys.stdout.write(usage(program()))
        return 0
    try:
        if words[:1] == ["convert"]:  # needs nothing of the other commands
            from ..convert.cli import convert  # noqa: PLC0415

            return convert(words[1:])
        import click  # noqa: PLC0415
    except ModuleNotFoundError:
        extra, command = ("convert", "`convert`") if words[:1] == ["convert"] else ("cli", "this command")
        print(INSTALL.format(command=command, extra=extra), file=sys.stderr)
        return 2
    from . import group  # noqa: PLC0415
    from .errors import CommandError, ExitCode  # noqa: PLC0415

    try:
        code = group.main.main(words, prog_name=program(), standalone_mode=False)
    except click.exceptions.Exit as e:
        return e.exit_code
    except click.ClickException as e:
        e.show()
        return e.exit_code
    except CommandError as e:
        print(f"error: {e}", file=sys.stderr)
        return e.exit_code
    except (KeyboardInterrupt, click.Abort):
        print(file=sys.stderr)
        return ExitCode.INTERRUPTED
    return code if isinstance(code, int) else 0


def complete() -> int:
    """Run `kubectl_complete-streamjob WORD…`, which kubectl calls for what comes next in the shell.

    The last word is the one to complete, perhaps empty. The answer is as kubectl's own completion gives it.
    """
    from click.shell_completion import ShellComplete  # noqa: PLC0415

    from .group import main  # noqa: PLC0415

    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(main, {}, "kubectl streamjob", "_UNUSED").get_completions(words, incomplete)
    for item in found:
        print(f"{item.value}\t{item.help}" if item.help else item.value)
    print(NO_FILES)
    return 0


def program() -> str:
    """What the user has called."""
    name = sys.argv[0].rpartition("/")[2]
    return "kubectl streamjob" if name.startswith("kubectl") else "streamjob"


if __name__ == "__main__":
    sys.exit(main())
