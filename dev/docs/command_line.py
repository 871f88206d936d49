"""The reference of the command line, from the parsers themselves."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from dev.docs.resource import escape

WIDTH = 84  # columns of a usage line


def reference(*parsers: argparse.ArgumentParser) -> str:
    """The page, as Markdown."""
    return "\n".join(line for parser in parsers for line in section(parser, 2, None))


def section(
    parser: argparse.ArgumentParser, level: int, above: argparse.ArgumentParser | None
) -> Iterator[str]:
    """A heading, the usage, tables of arguments and options, and the same for each command.

    :param above: the parser whose command this is. What both say stands there only.
    """
    yield f"{'#' * level} {parser.prog}\n"
    if parser.description:
        yield f"{escape(parser.description)}\n"
    yield f"```text\n{usage(parser)}\n```\n"
    actions = [
        a for a in parser._actions if not isinstance(a, argparse._HelpAction | argparse._SubParsersAction)
    ]
    rows = [
        (f"`{a.metavar or a.dest}`", "", escape(a.help or "")) for a in actions if not a.option_strings
    ] + [(f"`{invocation(a)}`", default(a), escape(a.help or "")) for a in actions if a.option_strings]
    if rows:
        yield "| argument or option | default | description |\n|---|---|---|"
        yield from (f"| {' | '.join(row)} |" for row in rows)
        yield ""
    if parser.epilog and (above is None or parser.epilog != above.epilog):
        yield f"````text\n{parser.epilog.strip()}\n````\n"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from section(command, level + 1, parser)


def usage(parser: argparse.ArgumentParser) -> str:
    formatter = argparse.HelpFormatter(parser.prog, width=WIDTH)
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, "")
    return formatter.format_help().strip()


def invocation(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
    return ", ".join(action.option_strings) + value


def default(action: argparse.Action) -> str:
    value = action.default
    return "" if value in (None, False, [], argparse.SUPPRESS) else f"`{value}`"
