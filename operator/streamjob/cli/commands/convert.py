"""`convert`: its options are those of the converter itself, which also runs without the other commands."""

from __future__ import annotations

import click


@click.command(
    add_help_option=False,
    short_help="Write StreamJobs for SparkApplications",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def convert(arguments: tuple[str, ...]) -> int:
    """Write StreamJobs for SparkApplications."""
    from ...convert import cli  # noqa: PLC0415  pydantic and YAML

    return cli.convert(arguments)
