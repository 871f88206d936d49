"""The table of commands, and the help that comes from it without any other package: it is there at once."""

from __future__ import annotations

from typing import NamedTuple


class CommandSpec(NamedTuple):
    """A command of a group: the module of `commands` that has it, and what it does."""

    module: str
    text: str


DESCRIPTION = (
    "Look at StreamJobs and end them gracefully.",
    "The command uses your kubectl: its contexts, its login, your permissions.\n"
    "Output is plain text when it is no terminal, and JSON with --json.",
)
OPTIONS = (
    ("-n, --namespace NAME", "the namespace"),
    ("--context NAME", "the context of the kubeconfig"),
    ("--kubeconfig FILE", "the kubeconfig"),
    ("--as USER", "act as another user"),
    ("--version", "show the version"),
    ("-h, --help", "show this; COMMAND --help has options and examples"),
)
COMMANDS = {
    "status": CommandSpec("status", "Show what jobs are doing"),
    "stop": CommandSpec("endings", "Stop a job with a savepoint"),
    "drain": CommandSpec("endings", "Emit every open window and end a job for good"),
    "resume": CommandSpec("endings", "Run a job again that was stopped, suspended, cancelled, or has failed"),
    "cancel": CommandSpec("endings", "Kill a job's driver without a savepoint"),
    "suspend": CommandSpec("endings", "Stop a job with a savepoint until it is resumed"),
    "run": CommandSpec("run", "Begin a round of a job with a schedule now"),
    "savepoint": CommandSpec("savepoint", "Take, list, check and delete savepoints"),
    "check": CommandSpec("check", "Say whether a new version of a job continues from its state"),
    "upgrade": CommandSpec("upgrade", "Run a job with another image"),
    "logs": CommandSpec("history", "Print the log of a job's driver"),
    "events": CommandSpec("history", "List the Events of a job and of its pods"),
    "timeline": CommandSpec("history", "Show a job's life, with durations"),
    "state": CommandSpec("state", "Show the state of a job's queries"),
    "diagnose": CommandSpec("diagnose", "Say what is wrong with a job and what to do"),
    "ui": CommandSpec("ui", "Show jobs and end them in a browser: a page served on this machine"),
    "convert": CommandSpec("convert", "Write StreamJobs for SparkApplications"),
}


def usage(program: str) -> str:
    """The help of the whole command."""
    indented = ("  " + text.replace("\n", "\n  ") for text in DESCRIPTION)
    parts = [
        f"Usage: {program} [OPTIONS] COMMAND [ARGS]...",
        *indented,
        "Options:\n" + _columns(OPTIONS),
        "Commands:\n" + _columns([(name, entry.text) for name, entry in COMMANDS.items()]),
    ]
    return "\n\n".join(parts) + "\n"


def _columns(rows: list[tuple[str, str]] | tuple[tuple[str, str], ...]) -> str:
    width = max(len(left) for left, _ in rows)
    return "\n".join(f"  {left:<{width}}  {right}" for left, right in rows)
