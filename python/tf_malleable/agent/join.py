# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Joining: makes a process a job, because `tfm run` started it or because it calls join().

The connection and its thread are imported only if an agent is started.
"""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tf_malleable.api.schema.job_names import printable_name, shortened_command
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.join import Join
from tf_malleable.api.transport.address import NoAnswerError, default_socket
from tf_malleable.model import ControllerError
from tf_malleable.runtime import cpuset, environment

if TYPE_CHECKING:
    from tf_malleable.agent.session import Session
    from tf_malleable.api.transport.connection import Connection

# Pids of this process and its parents that have become jobs by join().
_joined: list[int] = []


def start_agent(asked_for: Join) -> None:
    """Start the agent of a process that `tfm run` has made part of a job.

    The limits of a job with cores are set before the agent has its first grant: TensorFlow decides
    many things once, by the affinity if no limit is set, and the job may be confined to few CPUs
    for now.

    If no thread can be started, the program runs without an agent, and the controller
    confines it from outside.
    """
    from tf_malleable.agent import agent

    if environment.first_threads() is not None:  # As set by `tfm run` once there were cores.
        cpuset.limit_to(len(os.sched_getaffinity(0)))

    with agent.start_lock() as running, suppress(RuntimeError):
        if not running:
            agent.start(asked_for)


def join(  # noqa: PLR0913 - published
    name: str | None = None,
    *,
    min: int = 1,  # noqa: A002 - the name in Shape
    preferred: int | None = None,
    max: int | None = None,  # noqa: A002
    priority: int = 0,
    weight: float = 1.0,
    slo: str | None = None,
    socket: str | os.PathLike[str] | None = None,
    queue: bool = True,
) -> None:
    """Make this process a job of the controller; return once it has cores.

    From then on it is confined to its granted CPUs, TensorFlow's limits follow them, and
    both change as other jobs come and go. A process that is already a job, because
    `tfm run` started it or it has called this before, remains that job. In the second case a
    warning says so if the call asks for anything.

    Args:
        name: The job's name, by default the script's or module's; measured speeds are
            remembered by it.
        min: Minimum number of cores; the job does not run with fewer.
        preferred: Number of cores asked for; by default max.
        max: Maximum number of cores; by default all of the machine's.
        priority: Priority, -1000 … 1000; higher goes first.
        weight: Share relative to other jobs, if the policy uses it; above 0, at most
            1000.
        slo: Objective of a service, such as ``"p99=50ms"``; None for none.
        socket: Path of the controller's socket; by default TF_MALLEABLE_SOCKET, or else
            the default path.
        queue: True to wait until there are cores, False to be refused instead.

    Raises:
        ValueError: An argument is invalid, or the shape does not fit this machine.
        ConnectionError: No controller can be reached.
        ControllerError: The controller refuses the job; with queue=False also if there are
            not enough free cores.
    """
    wanted = Join(
        os.path.abspath(socket or default_socket()),
        JobRequest(
            name=_program() if name is None else name,
            command=shortened_command(sys.orig_argv),
            min=min,
            preferred=preferred,
            max=max,
            priority=priority,
            weight=weight,
            slo=slo,
        ),
    )
    from tf_malleable.agent import agent

    with agent.start_lock() as running:
        if not running:
            connection, session = _admitted(wanted, queue)
            agent.start(wanted, connection, session)
            _joined.append(os.getpid())
            return
    asked = (name, min, preferred, max, priority, weight, slo)
    if os.getpid() in _joined and asked != (None, 1, None, None, 0, 1.0, None):
        warnings.warn(
            "this process is a job already, and remains it: a further tf_malleable.join() changes"
            " nothing; use tfm set",
            stacklevel=2,
        )


def _admitted(wanted: Join, queue: bool) -> tuple[Connection, Session]:
    """Submit this process, wait for its first grant, and return the session."""
    from tf_malleable.agent.session import Session, connection_to
    from tf_malleable.api.transport.admission import admit, submit

    try:
        admitted = admit(
            lambda: connection_to(wanted),
            lambda connection: submit(connection, wanted.request, queue=queue),
        )
    except OSError as error:
        raise ConnectionError(str(NoAnswerError(wanted.socket, error))) from None
    assert admitted is not None
    session = Session(admitted.connection, admitted.job, admitted.lines)
    with suppress(OSError, ControllerError):
        # If this fails, the agent reconnects.
        session.begin(admitted.grant)
    return admitted.connection, session


def _program() -> str:
    """Return the default job name; for scripts and modules the same as with `tfm run`."""
    # The module's name with python -m; "__main__" for a directory or a zip file.
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    module = "" if spec is None else spec.name.removesuffix(".__main__")
    if module not in ("", "__main__"):
        return printable_name(module)
    script = Path(sys.argv[0]).name if sys.argv and sys.argv[0] not in ("", "-c", "-m") else ""
    return printable_name(script or "python")
