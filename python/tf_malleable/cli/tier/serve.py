# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm tier serve: the command that runs the tier's daemon on a node."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tf_malleable.api.transport.tier_address import own_tier_socket
from tf_malleable.workload.options import Size

_FILE = click.Path(dir_okay=False, path_type=Path)
_LEAST_CAPACITY = 1 << 20


@click.command()
@click.option(
    "--source",
    required=True,
    metavar="FOLDERS",
    help="The folders whose files are copied, with colons between them.",
)
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Where the copies are kept: on a disk of this node, and nothing else is there.",
)
@click.option(
    "--capacity",
    type=Size(),
    metavar="SIZE",
    help="What copies may take, such as 500G.  [default: nine tenths of what is free]",
)
@click.option(
    "--socket",
    type=_FILE,
    metavar="PATH",
    help="Where readers ask.  [default: $TF_MALLEABLE_TIER_SOCKET, or the standard path]",
)
@click.option(
    "--shared",
    is_flag=True,
    help="Let all users of the node read through it; each reads what the source lets him read.",
)
@click.option("--listen", metavar="IP:PORT", help="Share copies with other nodes, which ask here.")
@click.option(
    "--peers",
    metavar="HOST:PORT,…|dns:NAME:PORT",
    help="The nodes, of which this one may be one; or a name that has the addresses of all.",
)
@click.option(
    "--secret-file",
    type=_FILE,
    metavar="FILE",
    help="The nodes' secret.  [default: $TF_MALLEABLE_TIER_SECRET]",
)
@click.option("--certificate", type=_FILE, metavar="FILE", help="For TLS: certificate and key.")
@click.option("--authority", type=_FILE, metavar="FILE", help="For TLS: who signs certificates.")
@click.option(
    "--metrics",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Also serve /metrics for Prometheus on 127.0.0.1:PORT.",
)
@click.option(
    "--prefetch/--no-prefetch",
    default=True,
    show_default=True,
    help="Copy what a program is likely to open next, while nobody reads. Not with --shared.",
)
@click.option("-v", "--verbose", count=True, help="Log each copy.")
def serve(
    source: str,
    store: Path,
    capacity: int | None,
    socket: Path | None,
    shared: bool,
    listen: str | None,
    peers: str | None,
    secret_file: Path | None,
    certificate: Path | None,
    authority: Path | None,
    metrics: int | None,
    prefetch: bool,
    verbose: int,
) -> None:
    """Keep copies of training data on this node, and share them with other nodes.

    Start programs with tfm run --tier. What they read of the source is copied while they read it;
    the next time it is read from the copy, on this node or another. Runs until SIGTERM or Ctrl-C.
    Programs go on without it.
    """
    # Imported here because the server library is slow to load.
    from tf_malleable.tier import daemon, settings

    if capacity is not None and capacity < _LEAST_CAPACITY:
        raise ValueError("--capacity must be 1M or more")
    nodes, dns = settings.peer_list(peers)
    given = settings.TierSettings(
        sources=settings.checked_sources([Path(each) for each in source.split(":") if each], store),
        store=store,
        socket=socket or own_tier_socket(),
        capacity=capacity,
        listen=None if listen is None else settings.listening_address(listen),
        peers=nodes,
        dns=dns,
        secret=settings.read_secret(secret_file),
        certificate=certificate,
        authority=authority,
        metrics=metrics,
        shared=shared,
        prefetches=prefetch,
    )
    settings.check_peers(given)
    code = daemon.run(given, verbose)
    if code:
        sys.exit(code)
