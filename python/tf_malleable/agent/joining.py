# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Makes a process a job: because `tfm run` started it, or because it calls join().

The connection and its thread are imported only if an agent is started.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tf_malleable.api.address import NoAnswerError, default_socket
from tf_malleable.api.job_request import JobRequest
from tf_malleable.api.join import Join
from tf_malleable.api.naming import printable_name, shortened_command
from tf_malleable.model import ControllerError

if TYPE_CHECKING:
    from tf_malleable.agent.session import Session
    from tf_malleable.api.connection import Connection


def start_agent(asked_for: Join) -> None:
    """Start the agent of a process that `tfm run` has made part of a job.

    If no thread can be started, the program runs without an agent, and the controller
    confines it from outside.
    """
    from tf_malleable.agent import agent

    with agent.start_lock() as running, suppress(RuntimeError):
        if not running:
            agent.start(asked_for)


def join(
    name: str | None = None,
    *,
    min: int = 1,  # noqa: A002 - the name in Shape
    preferred: int | None = None,
    max: int | None = None,  # noqa: A002
    priority: int = 0,
    weight: float = 1.0,
    socket: str | os.PathLike[str] | None = None,
    queue: bool = True,
) -> None:
    """Make this process a job of the controller; return once it has cores.

    From then on it is confined to its granted CPUs, TensorFlow's limits follow them, and
    both change as other jobs come and go. A process that is already a job, because
    `tfm run` started it or it has called this before, remains that job.

    Args:
        name: The job's name, by default the script's or module's; measured speeds are
            remembered by it.
        min: It does not run with fewer cores.
        preferred: Cores it asks for; by default max.
        max: Most cores it can use; by default all of the machine's.
        priority: Higher goes first; -1000 … 1000.
        weight: Share relative to other jobs, if the policy uses it; above 0, at most
            1000.
        socket: The controller's; by default TF_MALLEABLE_SOCKET, or else the default
            path.
        queue: Wait until there are cores; if False, be refused instead.

    Raises:
        ValueError: An argument is invalid, or the shape does not fit this machine.
        ConnectionError: No controller can be reached.
        ControllerError: The controller refuses the job; with queue=False also because
            there are no cores for it now.
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
        ),
    )
    from tf_malleable.agent import agent

    with agent.start_lock() as running:
        if not running:
            connection, session = _admitted(wanted, queue)
            agent.start(wanted, connection, session)


def _admitted(wanted: Join, queue: bool) -> tuple[Connection, Session]:
    """Submit this process, wait for its first grant, and return the session."""
    from tf_malleable.agent.session import Session, connection_to
    from tf_malleable.api.admission import admit, submit

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
    """Return the default name, which for scripts and modules is that of `tfm run`."""
    # With python -m, this is the module's; for a directory or a zip file, "__main__".
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    module = "" if spec is None else spec.name.removesuffix(".__main__")
    if module not in ("", "__main__"):
        return printable_name(module)
    script = Path(sys.argv[0]).name if sys.argv and sys.argv[0] not in ("", "-c", "-m") else ""
    return printable_name(script or "python")
