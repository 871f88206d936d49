"""The group of commands. A command's module is imported when the command runs, so that `--help` is quick."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import click

from .. import __version__
from . import options


class Entry(NamedTuple):
    """A command of a group: where it is, and what it does, in the words of its own help."""

    module: str
    text: str


class Group(click.Group):
    """A group whose commands are imported when they are used.

    :param entries: by name, in the order of the help.
    :param prefix: the attribute of a command has its name, with this before it.
    """

    def __init__(self, *args: Any, entries: dict[str, Entry], prefix: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries, self.prefix = entries, prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f".commands.{entry.module}", __package__)
        found: click.Command = getattr(module, f"{self.prefix}{cmd_name}".replace("-", "_"))
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.text) for name, entry in self.entries.items()])


COMMANDS = {
    "status": Entry("status", "Show what jobs are doing"),
    "stop": Entry("endings", "Stop a job with a savepoint"),
    "drain": Entry("endings", "Emit every open window and end a job for good"),
    "resume": Entry("endings", "Run a job again that was stopped, suspended, cancelled, or has failed"),
    "cancel": Entry("endings", "Kill a job's driver without a savepoint"),
    "suspend": Entry(
        "endings", "Stop a job with a savepoint until it is resumed, without changing its state"
    ),
    "savepoint": Entry("savepoint", "Take, list, check and delete savepoints"),
    "ui": Entry("ui", "Open a page with all jobs, on this machine"),
    "convert": Entry("convert", "Write StreamJobs for SparkApplications"),
}


@click.group(
    cls=Group,
    entries=COMMANDS,
    help="Look at StreamJobs and end them gracefully.\n\nThe command uses your kubectl: its contexts, its "
    "login, your permissions. Output is plain text when it is no terminal, and JSON with --json.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@options.cluster
@click.version_option(__version__, message="%(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    context.ensure_object(options.Options)
