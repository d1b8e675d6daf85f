# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm controller: start the host daemon."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tf_malleable.controller.ports import Containers

_PATH = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.option(
    "--policy",
    metavar="NAME",
    help="How cores are shared out, for example lend+efficient; as last time unless given.",
)
@click.option(
    "--cpus", metavar="LIST", help="CPUs to share out, for example 0-3,7; all unless given."
)
@click.option(
    "--socket",
    type=_PATH,
    metavar="PATH",
    help="Where to listen: TF_MALLEABLE_SOCKET, or the usual place.",
)
@click.option(
    "--state",
    type=_PATH,
    metavar="FILE",
    help="Where jobs and history are kept: XDG_STATE_HOME, or the usual place.",
)
@click.option(
    "--metrics",
    type=int,
    metavar="PORT",
    help="Serve /metrics for Prometheus on 127.0.0.1:PORT too.",
)
@click.option("-v", "--verbose", count=True, help="Log what is done; twice: requests too.")
def controller(
    policy: str | None,
    cpus: str | None,
    socket: Path | None,
    state: Path | None,
    metrics: int | None,
    verbose: int,
) -> None:
    """Share this machine's CPUs out among the jobs that tfm run starts.

    Runs until it is told to stop by SIGTERM or Ctrl-C. Jobs go on without it, and the
    next controller with the same state file takes them up again.
    """
    # The other commands do without the server library, which takes time to load.
    from tf_malleable.controller import daemon

    options = daemon.Options(
        policy=policy, cpus=cpus, socket=socket, state=state, metrics=metrics, verbosity=verbose
    )
    code = daemon.run(options, _containers())
    if code:
        sys.exit(code)


def _containers() -> Callable[[str], Containers] | None:
    """Return how to reach the containers of this host; None without the engine's SDK."""
    try:
        from tf_malleable.containers.engine_containers import EngineContainers
    except ImportError:
        return None
    return EngineContainers
