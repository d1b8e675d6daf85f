# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Commands `tfm elastic coordinator` and `tfm elastic server`.

They run the processes of a training that do not run the user's script.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time

import click

from tf_malleable.cli.elastic import shard_options, supervised, training_registry
from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.member.server import ServingMember
from tf_malleable.elastic.membership.coordinator import Coordinator
from tf_malleable.elastic.settings import MeshSettings, address, secret
from tf_malleable.elastic.variables import PLACE
from tf_malleable.model import OperationError

# How long a new coordinator waits for existing processes to connect again: in a training that is
# known to have begun, and if that is unknown.
_RESUMED_SECONDS = 15.0
_UNKNOWN_SECONDS = 3.0
# How long a coordinator that ends together with all other processes helps them to hand over.
_LAST_SECONDS = 8.0


patience_option = click.option(
    "--patience",
    type=click.FloatRange(0, 1e6, min_open=True),
    default=30.0,
    metavar="SECONDS",
    help="Time limit for reaching the coordinator at the start.  [default: 30]",
)


@click.command("coordinator")
@click.option("--listen", default="127.0.0.1:0", metavar="HOST:PORT", help="Address to listen at.")
@click.option("--shards", type=int, metavar="N", default=4, help="Number of shards of each batch.")
@click.option(
    "--name",
    metavar="NAME",
    help="Name of the training, for tfm elastic status and set on this host.",
)
@click.option(
    "--resume", is_flag=True, help="Wait longer for workers: the training has begun before."
)
@click.option(
    "--fresh",
    is_flag=True,
    help="Start the first worker at once: the training has not begun before.",
)
@supervised.option
def coordinator(
    listen: str, shards: int, name: str | None, resume: bool, fresh: bool, supervisor: int | None
) -> None:
    """Coordinate the workers and servers of an elastic training.

    It may be stopped and started again at any time: workers continue without it, and report
    their state to the next one. TF_MALLEABLE_ELASTIC_SECRET has the training's secret.
    """
    at, shared = address(listen), secret()
    shard_options.check_shards(shards)
    if name is not None:
        training_registry.check_name(name)
    try:
        listener = socket.create_server((at.host, at.port), backlog=128)
    except OSError as error:
        raise OperationError(f"cannot listen at {listen}: {error.strerror or error}") from None
    bound = Address(at.host, listener.getsockname()[1])
    click.echo(f"{bound.host}:{bound.port}")
    sys.stdout.flush()
    if name is not None:
        training_registry.write(name, training_registry.Whereabouts(bound, shared))
    seconds = _RESUMED_SECONDS if resume else 0.0 if fresh else _UNKNOWN_SECONDS
    stop: list[float] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.append(time.monotonic()))
    if supervisor is not None:
        supervised.begin(supervisor)
    running = Coordinator(listener, shared, shards, first_seconds=seconds)

    def is_over() -> bool:
        if not stop or supervisor is None:
            return bool(stop)
        return not running.has_processes or time.monotonic() > stop[0] + _LAST_SECONDS

    running.serve(is_over)
    if name is not None:
        training_registry.remove(name)


@click.command()
@click.option(
    "--coordinator",
    "where",
    metavar="HOST:PORT",
    required=True,
    help="Address of the training's coordinator.",
)
@click.option(
    "--host",
    metavar="HOST",
    default="127.0.0.1",
    help="Name or address at which other processes reach this host.",
)
@patience_option
@supervised.option
def server(where: str, host: str, patience: float, supervisor: int | None) -> None:
    """Own slices of the parameters' sums in an elastic training.

    TF_MALLEABLE_ELASTIC_SECRET has the training's secret. On SIGTERM it hands over and exits.
    """
    if supervisor is not None:
        supervised.begin(supervisor)
    settings = MeshSettings(
        address(where),
        secret(),
        host=host,
        place=os.environ.get(PLACE, ""),
        patience_seconds=patience,
    )
    process = ServingMember(settings)
    signal.signal(signal.SIGTERM, lambda *_: process.leave())
    code = process.serve()
    process.close()
    # Threads that serve connections of other processes may still be running.
    sys.stdout.flush()
    os._exit(code)
