"""The group of commands. A command's module is imported when the command runs, so that `--help` is quick."""

from __future__ import annotations

import difflib
import importlib
from typing import Any

import click

from .. import __version__
from . import options
from .table import COMMANDS, DESCRIPTION, OPTIONS, CommandSpec


class Group(click.Group):
    """A group whose commands are imported when they are used.

    :param entries: by name, in the order of the help.
    :param prefix: the attribute of a command has its name, with this before it.
    """

    def __init__(self, *args: Any, entries: dict[str, CommandSpec], prefix: str = "", **kwargs: Any) -> None:
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        near = difflib.get_close_matches(args[0], self.entries, 1)
        if args[0] not in self.entries and near and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.text) for name, entry in self.entries.items()])


@click.group(
    cls=Group,
    entries=COMMANDS,
    help="\n\n".join(DESCRIPTION),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@options.cluster
@click.version_option(__version__, message="%(version)s", help=dict(OPTIONS)["--version"])
@click.help_option("-h", "--help", help=dict(OPTIONS)["-h, --help"])
@click.pass_context
def main(context: click.Context) -> None:
    context.ensure_object(options.Options)
