# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm web: serves the live page."""

from __future__ import annotations

import os
from pathlib import Path

import click

from tf_malleable.api.transport.address import default_socket

_PATH = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--port",
    type=int,
    metavar="PORT",
    help="Serve on 127.0.0.1:PORT; 0 for any free one.  [default: 8823, or any]",
)
@click.option(
    "--unix", type=_PATH, metavar="PATH", help="Serve on this Unix socket instead, for ssh -L."
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="Also accept requests for this host name, as through a tunnel; can be repeated.",
)
@click.option("--read-only", is_flag=True, help="Refuse all changes on the page.")
@click.option(
    "--behind-proxy",
    is_flag=True,
    help="Require no token: a proxy in front of --unix authenticates users, as Jupyter does.",
)
@click.option(
    "--socket",
    type=_PATH,
    metavar="PATH",
    help="The controller's socket.  [default: $TF_MALLEABLE_SOCKET, or the standard path]",
)
def web(
    port: int | None,
    unix: Path | None,
    hosts: tuple[str, ...],
    read_only: bool,
    behind_proxy: bool,
    socket: Path | None,
) -> None:
    """Show jobs, their CPUs, the queue and the energy live in a browser.

    Prints the address to open, which has a token. Whoever opens it acts as the user who runs
    this command. It is served to this host only; from another one, use ssh -L.
    """
    # Imported here because the server library is slow to load.
    from tf_malleable.web.server import PageOptions, serve

    if socket is None and os.environ.get("TF_MALLEABLE_HOST"):
        raise ValueError(
            "tfm web shows the controller of this host, and TF_MALLEABLE_HOST names another: run"
            " it there with --unix, and use ssh -L"
        )
    options = PageOptions(
        socket if socket is not None else default_socket(),
        port,
        unix,
        hosts,
        read_only,
        behind_proxy,
    )
    serve(options, lambda address: click.echo(f"tfm web: {address}"))
