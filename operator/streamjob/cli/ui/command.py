"""`ui`: serves the page until it is interrupted."""

from __future__ import annotations

import threading
import webbrowser
from contextlib import suppress

import click

from ..errors import CommandError
from ..options import Options
from .details import Details
from .jobs import Jobs
from .server import PageServer, page_files


class NoPage(CommandError):
    """The package was built without the page."""

    reason = "PageMissing"


class PortTaken(CommandError):
    """Something else listens on the port."""

    reason = "PortTaken"


def serve(chosen: Options, *, all_namespaces: bool, port: int, browser: bool) -> None:
    """Serve the page, until Ctrl-C.

    :raises NoPage: see there.
    :raises PortTaken: see there.
    """
    if not page_files():
        raise NoPage(
            "this package has no page", remedy="Build it with `make ui`, or install a released wheel"
        )
    jobs = Jobs(chosen.kubectl, all_namespaces=all_namespaces)
    try:
        server = PageServer(port, jobs, Details(chosen))
    except OSError as e:
        raise PortTaken(f"port {port} cannot be used: {e}", remedy="Choose another --port") from None
    threading.Thread(target=jobs.run, name="watch", daemon=True).start()
    click.echo(server.address(f"token={server.tokens.token}"))
    click.echo(
        "The page has your permissions. Whoever has this address has them too. Ctrl-C ends it.", err=True
    )
    if browser:
        # Its command line is visible to other users of the machine: a code that is used up at once.
        threading.Thread(
            target=webbrowser.open, args=[server.address(f"once={server.tokens.code()}")], daemon=True
        ).start()
    try:
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    finally:
        jobs.close()
        server.server_close()
