# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A job's way through the queue: submitted, then waiting for its first grant.

The controller may die and come back meanwhile. Then the job is submitted again, and
has its old place in the queue if the controller's state file remembers it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from tf_malleable.api.connection import Connection
from tf_malleable.api.grant_line import GrantLine
from tf_malleable.api.job_request import JobRequest
from tf_malleable.api.lines import Lines
from tf_malleable.model import ControllerError

_NOTICE_SECONDS: Final = 1.0
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0


class NotAControllerError(ConnectionError):
    """Something answers at the socket, but no controller."""


@dataclass(frozen=True)
class Submitted:
    """A job as its submission was answered.

    Attributes:
        id: Of the job.
        pid: Of its main process; None for a container that was not started yet.
        min: With fewer cores it does not run.
    """

    id: str
    pid: int | None
    min: int

    @property
    def path(self) -> str:
        """Where the controller has this job."""
        return f"/v1/jobs/{quote(self.id, safe='')}"


def submit(
    connection: Connection, request: JobRequest, *, queue: bool = True, running: bool = False
) -> Submitted:
    """Make this process a job, or find the job it is part of.

    Args:
        connection: To the controller.
        request: What the job asks for.
        queue: Wait until there are cores; otherwise be refused.
        running: The process is computing already: it joins, it does not queue.

    Raises:
        ControllerError: The controller refuses.
        NotAControllerError: What answers is none.
        OSError: It cannot be reached.
    """
    how = {"running": True} if running else {"queue": queue}
    job = connection.request("POST", "/v1/jobs", {**request.said(), **how})
    found = job if isinstance(job, dict) else {}
    identity, pid, least = found.get("id"), found.get("pid"), found.get("min", 1)
    if not isinstance(identity, str) or not isinstance(least, int):
        raise NotAControllerError(f"what answers at {connection.path} is no controller: {job!r}")
    return Submitted(identity, pid if isinstance(pid, int) else None, least)


class Notices:
    """What somebody who waits gets to hear. These say nothing."""

    def submitted(self, job: Submitted) -> None:
        """The controller knows the job."""

    def waiting(self, job: Submitted) -> None:
        """It has waited for a second. Said once."""

    def gone(self) -> None:
        """The controller does not answer any more. Said once."""


@dataclass(frozen=True)
class Admitted:
    """A job that has its first grant.

    Attributes:
        job: It.
        grant: The grant; not carried out or acknowledged yet.
        lines: Those that follow.
        connection: To the controller; the caller's to close.
    """

    job: Submitted
    grant: GrantLine
    lines: Lines
    connection: Connection


def may_compute(grant: GrantLine) -> bool:
    """Return whether a process with this grant may start."""
    # CPUs that it has lent are its own: it needs one now.
    return grant.state == "running" and bool(grant.cpus or grant.lent)


def admit(
    connect: Callable[[], Connection],
    submit: Callable[[Connection], Submitted],
    *,
    is_enough: Callable[[GrantLine], bool] = may_compute,
    is_moot: Callable[[], bool] = lambda: False,
    notices: Notices | None = None,
) -> Admitted | None:
    """Submit a job and wait for its first grant, as often as the controller dies meanwhile.

    Args:
        connect: Returns a new connection.
        submit: Submits the job, or finds it again.
        is_enough: Tells the grant that is waited for.
        is_moot: Tells, whenever the controller is gone, that there is nothing to wait for.
        notices: Hears how it goes.

    Returns:
        The job with its grant; None if waiting has become moot.

    Raises:
        ControllerError: The controller refuses the job.
        OSError: It cannot be reached, and never could.
    """
    notices = notices or Notices()
    is_known = is_waiting = is_gone = False
    pause = _FIRST_PAUSE
    while True:
        connection = connect()
        try:
            job = submit(connection)
            is_known = True
            notices.submitted(job)
            lines = _stream(connection, job)
            pause = _FIRST_PAUSE
            while True:
                line = lines.next_within(None if is_waiting else _NOTICE_SECONDS)
                if line is None:
                    is_waiting = True
                    notices.waiting(job)
                    continue
                grant = GrantLine.read(line)
                if is_enough(grant):
                    return Admitted(job, grant, lines, connection)
        except (OSError, EOFError):
            connection.close()
            if not is_known:
                raise
        except BaseException:  # Ctrl-C, too.
            connection.close()
            raise
        if is_moot():
            return None
        if not is_gone:
            is_gone = True
            notices.gone()
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _stream(connection: Connection, job: Submitted) -> Lines:
    try:
        return connection.stream(f"{job.path}/grants")
    except ControllerError as error:
        # Another controller than the one that took the job.
        raise ConnectionError(str(error)) from None
