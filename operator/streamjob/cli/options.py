"""What every command has: its examples, and the options that choose a cluster, a namespace and the output."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .kubectl import Kubectl

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Decorator = Callable[[Any], Any]

# As in kubectl, which gets them as they are: name, placeholder, help. Those without help are not listed.
PASSED_ON = (
    ("--context", "NAME", "the context of the kubeconfig"),
    ("--kubeconfig", "FILE", "the kubeconfig"),
    ("--as", "USER", "act as another user"),
    ("--as-group", "GROUP", ""),
    ("--cluster", "NAME", ""),
    ("--user", "NAME", ""),
    ("--server", "URL", ""),
    ("--request-timeout", "TIME", ""),
)


@dataclass
class Options:
    """What the user has chosen.

    :param passed_on: options of kubectl, by name.
    :param local: the folder of a job that runs without Kubernetes, None for those of the cluster.
    """

    passed_on: dict[str, str] = field(default_factory=dict)
    namespace: str | None = None
    local: Path | None = None
    json: bool = False

    @cached_property
    def kubectl(self) -> Kubectl:
        return Kubectl(tuple(word for option in self.passed_on.items() for word in option), self.namespace)

    @property
    def suffix(self) -> str:
        """The options that lead to the same job, for commands that are suggested."""
        words = [word for option in self.passed_on.items() for word in option]
        words += ["-n", self.namespace] if self.namespace else []
        words += ["--local", str(self.local)] if self.local else []
        return "".join(f" {word}" for word in words)


def command(*, examples: str, name: str | None = None, json: bool = True, local: bool = False) -> Decorator:
    """A decorator: a command with its examples, and with the options that all commands have.

    The first sentence of the docstring is its help in lists.

    :param json: it writes JSON on request.
    :param local: it works on a job without Kubernetes, too.
    """

    def decorate(function: Any) -> click.Command:
        for option in reversed([*_cluster(), *([_LOCAL] if local else []), *([_JSON] if json else [])]):
            function = option(function)
        text = textwrap.dedent(examples).strip("\n")
        # A line with \b keeps the lines that follow it as they are.
        epilog = "Examples:\n\n\b\n" + textwrap.indent(text, "  ")
        first = (function.__doc__ or "").partition(".")[0].replace("\n", " ").strip()
        made: click.Command = click.command(name, click.Command, epilog=epilog, short_help=first)(function)
        return made

    return decorate


def job_name(*, required: bool = True) -> Decorator:
    """A decorator: the command has the name of a job as its argument. The shell completes it.

    With --local there is none.
    """
    return click.argument(
        "name",
        metavar="NAME" if required else "[NAME]",
        required=False,
        shell_complete=_complete_jobs,
        callback=_required if required else None,
    )


def _complete_jobs(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from .completion import jobs  # noqa: PLC0415  for the shell only

    return jobs(context.find_root().ensure_object(Options).kubectl, incomplete)


def complete_savepoints(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Those of the job that is named before."""
    from .completion import savepoints  # noqa: PLC0415  for the shell only

    kubectl = context.find_root().ensure_object(Options).kubectl
    return savepoints(kubectl, context.params.get("name"), incomplete)


def _required(context: click.Context, parameter: click.Parameter, value: str | None) -> str:
    if (
        value is None
        and not context.resilient_parsing
        and context.find_root().ensure_object(Options).local is None
    ):
        raise click.MissingParameter(ctx=context, param=parameter, param_hint="'NAME'")
    return value or ""


def cluster(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator: the group has the options that choose cluster and namespace, too."""
    for option in reversed(_cluster()):
        function = option(function)
    return function


def _cluster() -> list[Decorator]:
    return [
        click.option(
            "-n",
            "--namespace",
            metavar="NAME",
            help="the namespace",
            expose_value=False,
            is_eager=True,
            callback=_take("namespace"),
        ),
        *(
            click.option(
                name,
                metavar=placeholder,
                help=text,
                hidden=not text,
                expose_value=False,
                is_eager=True,
                callback=_pass_on,
            )
            for name, placeholder, text in PASSED_ON
        ),
    ]


def _take(attribute: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    def take(context: click.Context, parameter: click.Parameter, value: Any) -> None:
        if value:
            setattr(context.find_root().ensure_object(Options), attribute, value)

    return take


def _pass_on(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        context.find_root().ensure_object(Options).passed_on[parameter.opts[0]] = value


_LOCAL = click.option(
    "--local",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="a job without Kubernetes: its folder, .streamjob/SCRIPT",
    expose_value=False,
    is_eager=True,
    callback=_take("local"),
)
_JSON = click.option(
    "--json",
    is_flag=True,
    help="write JSON to standard output",
    expose_value=False,
    is_eager=True,
    callback=_take("json"),
)
