"""The command `kubectl streamjob`, from click itself: its part of the reference, and its manual page.

python -m dev.docs.click_commands > docs/man/kubectl-streamjob.1
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from dev.docs.resource import escape
from streamjob import __version__
from streamjob.cli.group import main as top

NAME = "kubectl streamjob"
MARK = "\b"  # click keeps the lines behind it as they are


def commands(
    command: click.Command = top, name: str = NAME, above: click.Context | None = None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """The group and all its commands, each with its full name."""
    context = click.Context(command, info_name=name, parent=above, **command.context_settings)
    yield name, command, context
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            found = command.get_command(context, part)
            assert found is not None
            # Its options are the converter's, which has a section of its own.
            if part != "convert":
                yield from commands(found, f"{name} {part}", context)


def options_of(command: click.Command, context: click.Context) -> list[tuple[str, str]]:
    """Options that the help shows, with their texts. That each command has --help is said once."""
    found = []
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option) and (parameter.name != "help" or command is top):
            record = parameter.get_help_record(context)
            if record is not None:
                found.append((record[0], record[1]))
    return found


def examples(command: click.Command) -> str:
    """The examples of a command, without the indentation of the help."""
    text = (command.epilog or "").partition(MARK)[2].strip("\n")
    return re.sub(r"(?m)^  ", "", text)


def usage(command: click.Command, context: click.Context, name: str) -> str:
    return " ".join([name, *command.collect_usage_pieces(context)])


def paragraphs(command: click.Command) -> list[str]:
    text = (command.help or "").replace("\f", "")
    return [" ".join(p.split()) for p in re.split(r"\n\s*\n", text) if p.strip()]


# --- the reference ------------------------------------------------------------------------------------------


def reference() -> str:
    """The commands, as Markdown."""
    return "\n".join(line for found in commands() for line in _section(*found))


def _section(name: str, command: click.Command, context: click.Context) -> Iterator[str]:
    level = 2 if name == NAME else 3
    yield f"{'#' * level} {name}\n"
    for text in paragraphs(command):
        yield f"{escape(text)}\n"
    yield f"```text\n{usage(command, context, name)}\n```\n"
    if isinstance(command, click.Group):
        yield "| command | description |\n|---|---|"
        for part in command.list_commands(context):
            found = command.get_command(context, part)
            assert found is not None
            yield f"| `{part}` | {escape(found.get_short_help_str(200))} |"
        yield ""
    yield "| option | description |\n|---|---|"
    yield from (f"| `{flag}` | {escape(text)} |" for flag, text in options_of(command, context))
    yield ""
    if text := examples(command):
        yield f"```sh\n{text}\n```\n"


# --- the manual page ----------------------------------------------------------------------------------------

HEAD = """\
.TH KUBECTL-STREAMJOB 1 "" "StreamJob {version}" "User Commands"
.SH NAME
kubectl-streamjob \\- look at StreamJobs and end them gracefully
.SH SYNOPSIS
.B kubectl streamjob
.I COMMAND
[\\fIOPTION\\fR]...
.br
.B streamjob
.I COMMAND
[\\fIOPTION\\fR]...
"""
TAIL = """\
.SH EXIT STATUS
.TP
0
done
.TP
1
the job did not get there, or something is wrong with what was looked at
.TP
2
wrong arguments, or something that has to be confirmed with \\-\\-yes
.TP
3
kubectl, the API server or permissions; nothing was changed
.TP
4
the time of \\-\\-timeout has passed; what was requested stays requested
.TP
5
somebody has requested something else meanwhile
.TP
130
Ctrl\\-C; what was requested stays requested
.SH ENVIRONMENT
.TP
KUBECTL
another program in place of kubectl, such as \\(dqmicrok8s kubectl\\(dq
.TP
KUBECONFIG
as for kubectl
.TP
NO_COLOR
plain text in a terminal, too
.SH SEE ALSO
.BR kubectl (1)
"""


def man() -> str:
    """The manual page."""
    found = list(commands())
    _, whole, context = found[0]
    lines = [HEAD.format(version=__version__), ".SH DESCRIPTION"]
    for text in paragraphs(whole):
        lines += [".PP", _roff(text)]
    lines += [".SH OPTIONS", "These are options of each command, too.", *_options(whole, context)]
    lines.append(".SH COMMANDS")
    shared = {flag for flag, _ in options_of(whole, context)}
    for name, command, inner in found[1:]:
        lines.append(f".SS {_roff(usage(command, inner, name.removeprefix(NAME + ' ')))}")
        for text in paragraphs(command):
            lines += [".PP", _roff(text)]
        lines += _options(command, inner, without=shared)
        if text := examples(command):
            lines += [".PP", "Examples:", ".PP", ".nf", *map(_roff, text.splitlines()), ".fi"]
    return "\n".join([*lines, TAIL])


def _options(
    command: click.Command, context: click.Context, without: set[str] | None = None
) -> Iterator[str]:
    for flag, text in options_of(command, context):
        if flag not in (without or ()):
            yield f".TP\n.B {_roff(flag)}\n{_roff(text)}"


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


if __name__ == "__main__":
    print(man(), end="")
