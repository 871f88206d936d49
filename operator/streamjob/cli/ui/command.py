"""`ui`: serves the page until it is interrupted."""

from __future__ import annotations

import sys
import threading
import webbrowser
from contextlib import suppress

import click

from ..errors import CommandError
from ..options import Options
from .cluster import ClusterDetails, ClusterJobs
from .jobs import Jobs
from .local import LocalDetails, LocalJobs
from .server import PageServer, page_files
from .sources import DetailSource, JobSource

LAST_SECONDS = 5.0  # in which open pages get the end of what they show


class NoPage(CommandError):
    """The package was built without the page."""

    reason = "PageMissing"


class PortTaken(CommandError):
    """Something else listens on the port."""

    reason = "PortTaken"


def sources(chosen: Options, *, all_namespaces: bool) -> tuple[JobSource, DetailSource]:
    """Where jobs and details come from: the cluster, or a folder."""
    if chosen.local:
        return LocalJobs(chosen.local), LocalDetails(chosen)
    return ClusterJobs(chosen.kubectl, all_namespaces=all_namespaces), ClusterDetails(chosen)


def serve(chosen: Options, *, all_namespaces: bool, port: int, browser: bool, until_eof: bool) -> None:
    """Serve the page, until Ctrl-C.

    :param until_eof: until standard input ends, too: with the process that has started this one.
    :raises NoPage: see there.
    :raises PortTaken: see there.
    """
    if not page_files():
        raise NoPage(
            "this package has no page", remedy="Build it with `make ui`, or install a released wheel"
        )
    of_jobs, of_details = sources(chosen, all_namespaces=all_namespaces)
    jobs = Jobs(of_jobs)
    try:
        server = PageServer(port, jobs, of_details)
    except OSError as e:
        raise PortTaken(f"port {port} cannot be used: {e}", remedy="Choose another --port") from None
    threading.Thread(target=jobs.run, name="watch", daemon=True).start()
    click.echo(server.address(f"token={server.tokens.token}"))
    if not until_eof:
        rights = "can end these jobs" if chosen.local else "has your permissions"
        click.echo(f"Whoever has this address {rights}. Ctrl-C ends the page.", err=True)
    if browser:
        # Its command line is visible to other users of the machine: a code that is used up at once.
        threading.Thread(
            target=webbrowser.open, args=[server.address(f"once={server.tokens.code()}")], daemon=True
        ).start()
    if until_eof:
        threading.Thread(target=_end_with_input, args=[server], name="input", daemon=True).start()
    try:
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    finally:
        jobs.close()
        server.server_close()


def _end_with_input(server: PageServer) -> None:
    sys.stdin.buffer.read()
    threading.Event().wait(LAST_SECONDS)
    server.shutdown()
