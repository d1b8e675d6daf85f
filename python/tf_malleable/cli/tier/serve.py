# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm tier serve: the command that runs the tier's daemon on a node."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tf_malleable.api.transport.tier_address import own_tier_socket
from tf_malleable.workload.options import Duration, Size

_FILE = click.Path(dir_okay=False, path_type=Path)
_LEAST_CAPACITY = 1 << 20
_SCRUB_DAYS = 7


@click.command()
@click.option(
    "--source",
    required=True,
    metavar="FOLDERS",
    help="Folders whose files are copied, separated by colons; s3://BUCKET/FOLDER for objects.",
)
@click.option(
    "--store",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Folder for the copies, on a disk of this node; it must hold nothing else.",
)
@click.option(
    "--capacity",
    type=Size(),
    metavar="SIZE",
    help="Maximum size of all copies, such as 500G.  [default: nine tenths of the free space]",
)
@click.option(
    "--socket",
    type=_FILE,
    metavar="PATH",
    help="Socket for readers.  [default: $TF_MALLEABLE_TIER_SOCKET, or the standard path]",
)
@click.option(
    "--shared",
    is_flag=True,
    help="Serve all users of the node; each reads only what the source permits.",
)
@click.option(
    "--listen",
    metavar="IP:PORT",
    help="Share copies with other nodes, which connect to this address.",
)
@click.option(
    "--peers",
    metavar="HOST:PORT,…|dns:NAME:PORT",
    help="Addresses of the nodes, this one may be among them; or a name that resolves to all.",
)
@click.option(
    "--secret-file",
    type=_FILE,
    metavar="FILE",
    help="File with the nodes' secret.  [default: $TF_MALLEABLE_TIER_SECRET]",
)
@click.option("--certificate", type=_FILE, metavar="FILE", help="Certificate and key, for TLS.")
@click.option("--authority", type=_FILE, metavar="FILE", help="Certificate authority, for TLS.")
@click.option(
    "--metrics",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Also serve /metrics for Prometheus on 127.0.0.1:PORT.",
)
@click.option(
    "--staleness",
    type=Duration(),
    metavar="TIME",
    help="Use a copy for this long without a look at its source, which saves a request to a file"
    " server.  [default: look each time]",
)
@click.option(
    "--scrub",
    type=Duration(),
    default=f"{_SCRUB_DAYS}d",
    show_default=True,
    metavar="TIME",
    help="Reread each copy from the disk once in this time, and drop those that have rotted.",
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
    staleness: float | None,
    scrub: float,
    verbose: int,
) -> None:
    """Keep copies of training data on this node, and share them with other nodes.

    Start programs with tfm run --tier. Files are copied while these read them from the source;
    later reads use the copy, on this node or another. Runs until SIGTERM or Ctrl-C.
    Programs go on without it.
    """
    # Imported here because the server library is slow to load.
    from tf_malleable.tier import daemon, settings

    if capacity is not None and capacity < _LEAST_CAPACITY:
        raise ValueError("--capacity must be 1M or more")
    nodes, dns = settings.peer_list(peers)
    folders, objects = settings.split_sources(source)
    given = settings.TierSettings(
        sources=settings.checked_sources(folders, store) if folders or not objects else (),
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
        staleness=staleness or 0.0,
        scrub=scrub,
        objects=objects,
    )
    settings.check_peers(given)
    if objects and shared:
        raise ValueError("--shared has no sources in S3: they are read with one user's credentials")
    code = daemon.run(given, verbose)
    if code:
        sys.exit(code)
