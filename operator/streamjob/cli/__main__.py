"""The entry point of `streamjob` and `kubectl streamjob`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

INSTALL = "streamjob: this command needs the packages click and rich: pip install 'streamjob[cli]'"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    :returns: the exit code.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["convert"]:  # needs nothing of the other commands
        from ..convert.cli import convert  # noqa: PLC0415

        return convert(words[1:])
    try:
        import click  # noqa: PLC0415
    except ModuleNotFoundError:
        print(INSTALL, file=sys.stderr)
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
    except BrokenPipeError:
        sys.stderr.close()  # nobody reads on, `| head` for example
        return 0
    return code if isinstance(code, int) else 0


def program() -> str:
    """What the user has called."""
    return "kubectl streamjob" if Path(sys.argv[0]).name.startswith("kubectl") else "streamjob"


if __name__ == "__main__":
    sys.exit(main())
