"""The options that every command has: which cluster, which namespace, and how to print."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import click

from .kubectl import Kubectl

F = TypeVar("F", bound=Callable[..., Any])

# As in kubectl, which gets them as they are: name, placeholder, help.
PASSED_ON = (
    ("--context", "NAME", "the context of the kubeconfig"),
    ("--kubeconfig", "FILE", "the kubeconfig"),
    ("--cluster", "NAME", "the cluster of the kubeconfig"),
    ("--user", "NAME", "the user of the kubeconfig"),
    ("--as", "USER", "act as another user"),
    ("--as-group", "GROUP", "act as a member of another group"),
    ("--server", "URL", "the address of the API server"),
    ("--request-timeout", "TIME", "how long to wait for one answer of the API server"),
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
    def command_line(self) -> str:
        """The options that lead to the same cluster and namespace, for commands that we suggest."""
        words = [word for option in self.passed_on.items() for word in option]
        words += ["-n", self.namespace] if self.namespace else []
        words += ["--local", str(self.local)] if self.local else []
        return " ".join(["", *words])

    @property
    def plain(self) -> bool:
        """Whether standard output is no terminal: a file, or another program."""
        return not sys.stdout.isatty()


def of(context: click.Context) -> Options:
    """The options of the command line, which its commands share."""
    root = context.find_root()
    if root.obj is None:
        root.obj = Options()
    found: Options = root.obj
    return found


def cluster(function: F) -> F:
    """A decorator: the command has the options that choose cluster and namespace."""
    for name, placeholder, text in reversed(PASSED_ON):
        function = click.option(
            name,
            metavar=placeholder,
            help=text,
            expose_value=False,
            callback=_pass_on,
            is_eager=True,
            hidden=name not in _SHOWN,
        )(function)
    return click.option(
        "-n",
        "--namespace",
        metavar="NAME",
        help="the namespace",
        expose_value=False,
        callback=_namespace,
        is_eager=True,
    )(function)


def local(function: F) -> F:
    """A decorator: the command works on a job without Kubernetes, too."""
    return click.option(
        "--local",
        metavar="DIR",
        type=click.Path(path_type=Path, file_okay=False),
        help="a job that runs without Kubernetes: its folder (.streamjob/SCRIPT)",
        expose_value=False,
        callback=_local,
        is_eager=True,
    )(function)


def as_json(function: F) -> F:
    """A decorator: the command writes JSON on request."""
    return click.option(
        "--json", is_flag=True, help="write JSON to standard output", expose_value=False, callback=_json
    )(function)


_SHOWN = ("--context", "--kubeconfig", "--as")


def _pass_on(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        of(context).passed_on[parameter.opts[0]] = value


def _namespace(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value is not None:
        of(context).namespace = value


def _local(context: click.Context, parameter: click.Parameter, value: Path | None) -> None:
    if value is not None:
        of(context).local = value


def _json(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        of(context).json = True
