"""`ui`: a page with all jobs, on this machine."""

from __future__ import annotations

import click

from .. import options


@options.command(
    json=False,
    local=True,
    examples="""
    kubectl streamjob ui
    kubectl streamjob ui -A
    kubectl streamjob ui --no-browser --port 8090
    streamjob ui --local .streamjob
    """,
)
@click.option("-A", "--all-namespaces", is_flag=True, help="jobs of all namespaces")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="the port; 0, the default: a free one")
@click.option("--no-browser", is_flag=True, help="only print the address")
@click.option("--until-eof", is_flag=True, hidden=True, help="end with standard input, too")
@click.pass_obj
def ui(chosen: options.Options, all_namespaces: bool, port: int, no_browser: bool, until_eof: bool) -> None:
    """Show jobs and end them in a browser: a page served on this machine.

    It prints its address and opens it. The address has a token: whoever has it has your permissions, as long
    as the command runs. Ctrl-C ends it.

    With --local: the job in a folder, or all jobs in a folder with their folders.
    """
    from ..ui.command import serve  # noqa: PLC0415  the server is imported when it is needed

    serve(chosen, all_namespaces=all_namespaces, port=port, browser=not no_browser, until_eof=until_eof)
