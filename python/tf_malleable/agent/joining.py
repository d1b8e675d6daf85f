# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How a process becomes a job: started by `tfm run`, or by asking for it.

What an agent needs is imported when there is to be one.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tf_malleable.api.address import default_socket
from tf_malleable.api.job_request import JobRequest
from tf_malleable.api.join import Join
from tf_malleable.api.naming import printable_name, shortened_command
from tf_malleable.model import ControllerError

if TYPE_CHECKING:
    from tf_malleable.agent.session import Session
    from tf_malleable.api.connection import Connection

_BAD_REQUEST: Final = 400


def start_agent(asked_for: Join) -> None:
    """Start the agent of a process that `tfm run` has made part of a job.

    Without one, where not even a thread can be started, the program does as well:
    the controller then confines it from outside.
    """
    from tf_malleable.agent import agent

    with agent.alone() as running, suppress(RuntimeError):
        if not running:
            agent.start(asked_for)


def join(
    name: str | None = None,
    *,
    min: int = 1,  # noqa: A002 - as a shape has it
    preferred: int | None = None,
    max: int | None = None,  # noqa: A002
    priority: int = 0,
    weight: float = 1.0,
    socket: str | os.PathLike[str] | None = None,
    queue: bool = True,
) -> None:
    """Make this process a job of the controller; return once it may compute.

    From then on it is confined to the CPUs it is granted, TensorFlow's limits
    follow them, and both change as other jobs come and go. A process that is a job
    already, because `tfm run` started it or it has called this before, stays the
    job that it is.

    Args:
        name: What people call the job, and what speeds are learned by; by default
            the script's name.
        min: With fewer cores it does not run.
        preferred: What it asks for; by default max.
        max: More would not help; by default all of the machine.
        priority: Higher goes first, in policies that look at it; -1000 … 1000.
        weight: Share against others, in policies that look at it; above 0, at most
            1000.
        socket: The controller's; by default TF_MALLEABLE_SOCKET, or the usual place.
        queue: Wait until there are cores; otherwise be refused.

    Raises:
        ValueError: One of these is not what it should be, or no shape for this machine.
        ConnectionError: No controller answers.
        ControllerError: The controller refuses; with queue=False, when there are no
            cores for it now.
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

    with agent.alone() as running:
        if not running:
            connection, session = _admitted(wanted, queue)
            agent.start(wanted, connection, session)


def _admitted(wanted: Join, queue: bool) -> tuple[Connection, Session]:
    """Return a session of this process, as a job that may run."""
    from tf_malleable.agent.session import Session, connection_to
    from tf_malleable.api.admission import admit, submit

    try:
        admitted = admit(
            lambda: connection_to(wanted),
            lambda connection: submit(connection, wanted.request, queue=queue),
        )
    except ControllerError as error:
        if error.status == _BAD_REQUEST:
            raise ValueError(str(error)) from None
        raise
    except OSError as error:
        raise ConnectionError(
            f"no controller answers at {wanted.socket} ({error.strerror or error});"
            " 'tfm controller' starts one"
        ) from None
    assert admitted is not None
    session = Session(admitted.connection, admitted.job, admitted.lines)
    with suppress(OSError, ControllerError):
        # The agent finds the controller again.
        session.begin(admitted.grant)
    return admitted.connection, session


def _program() -> str:
    script = Path(sys.argv[0]).name if sys.argv and sys.argv[0] not in ("", "-c", "-m") else ""
    return printable_name(script or "python")
