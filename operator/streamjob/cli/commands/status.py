"""`status`: what jobs are doing."""

from __future__ import annotations

import json

import click

from .. import options
from ..kubectl import JOBS


@click.command(short_help="Show what jobs are doing")
@click.argument("name", required=False)
@click.option("-A", "--all-namespaces", is_flag=True, help="jobs of all namespaces")
@options.as_json
@options.cluster
@click.pass_context
def status(context: click.Context, name: str | None, all_namespaces: bool) -> None:
    """Show what jobs are doing."""
    kubectl = options.of(context).kubectl
    found = [kubectl.get(JOBS, name)] if name else kubectl.list(JOBS, all_namespaces=all_namespaces)
    click.echo(json.dumps(found, indent=2))
