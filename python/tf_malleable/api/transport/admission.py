# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Admission of a job: the client submits it and waits for its first grant.

If the controller restarts meanwhile, the job is submitted again. It keeps its place in
the queue if the controller's state file contains it.
"""

from __future__ import annotations

import time

from tf_malleable.api.schema.grant_line import GrantLine
from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.transport.connection import Connection
from tf_malleable.api.transport.json_lines import Lines
from tf_malleable.model.errors import ControllerError
from tf_malleable.quick_dataclass import dataclass

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

_NOTICE_SECONDS: Final = 1.0
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0

_NOT_FOUND: Final = 404
# Statuses from here on are not the fault of the request (RFC 9110).
_SERVER_ERROR: Final = 500


@dataclass(frozen=True)
class Submitted:
    """The controller's answer to a submission.

    Attributes:
        id: Id of the job.
        min: Minimum number of cores of the job.
        is_caller: True if this process is the job's main process, not a descendant.
        lacks: Resource other than cores that the job waits for; None if none.
        max: Maximum number of cores of the job; None if the controller does not say.
        cause: What ends the job, before it has had cores; None if nothing does.
    """

    id: str
    min: int
    is_caller: bool = False
    lacks: str | None = None
    max: int | None = None
    cause: str | None = None

    @property
    def path(self) -> str:
        """The job's path in the HTTP API."""
        if self.id.isascii() and self.id.isalnum():  # Nearly always.
            return f"/v1/jobs/{self.id}"
        from urllib.parse import quote

        return f"/v1/jobs/{quote(self.id, safe='')}"


def submit(
    connection: Connection, request: JobRequest, *, queue: bool = True, running: bool = False
) -> Submitted:
    """Make this process a job, or find the job it is part of.

    Args:
        connection: Connection to the controller.
        request: Request of the job.
        queue: True to wait until there are cores, False to be refused instead.
        running: True if the process is already computing, so that it joins without queueing.

    Raises:
        ValueError: The controller finds the request invalid.
        ControllerError: The controller refuses the job.
        OSError: The controller cannot be reached, or the peer is not a controller.
    """
    how = {"running": True} if running else {"queue": queue}
    job = connection.ask("POST", "/v1/jobs", {**request.said(), **how})
    found = job if isinstance(job, dict) else {}
    identity, least = found.get("id"), found.get("min", 1)
    if not isinstance(identity, str) or not isinstance(least, int):
        raise ConnectionError(f"what answers at {connection.path} is not a controller: {job!r}")
    lacks, most, cause = (found.get(name) for name in ("lacks", "max", "cause"))
    return Submitted(
        identity,
        least,
        found.get("is_caller") is True,
        lacks if isinstance(lacks, str) else None,
        most if isinstance(most, int) else None,
        cause if isinstance(cause, str) else None,
    )


class Notices:
    """Callbacks that tell the user why a job waits. The methods of this class do nothing."""

    def submitted(self, job: Submitted) -> None:
        """Handle that the controller has accepted the job. Called after each submission."""

    def waiting(self, job: Submitted) -> None:
        """Handle that the job has waited for a second. Called once."""

    def busy(self, reason: str) -> None:
        """Handle that the controller answers, but cannot serve the job now. Called once."""

    def gone(self) -> None:
        """Handle that the controller no longer answers. Called once."""


@dataclass(frozen=True)
class Admitted:
    """A job that has its first grant.

    Attributes:
        job: The job.
        grant: First grant of the job, neither applied nor acknowledged.
        lines: Stream of later grants.
        connection: Connection to the controller; the caller closes it.
    """

    job: Submitted
    grant: GrantLine
    lines: Lines
    connection: Connection


def may_compute(grant: GrantLine) -> bool:
    """Return whether a process with this grant may start."""
    # Lent CPUs belong to the job, which reclaims them as soon as it computes.
    return grant.state == "running" and bool(grant.cpus or grant.lent)


def admit(
    connect: Callable[[], Connection],
    submit: Callable[[Connection], Submitted],
    *,
    is_enough: Callable[[GrantLine], bool] = may_compute,
    is_moot: Callable[[], bool] = lambda: False,
    notices: Notices | None = None,
    is_patient: bool = False,
) -> Admitted | None:
    """Submit a job and wait for its first grant; start over if the controller restarts.

    Args:
        connect: Returns a new connection.
        submit: Submits the job, or finds it again.
        is_enough: Returns whether a grant ends the wait.
        is_moot: Called when the controller is gone or busy; returns whether to give up waiting.
        notices: Callbacks for the progress; None for none.
        is_patient: Whether to wait for a controller that is away or busy already at the first
            submission.

    Returns:
        The job with its grant; None if is_moot() returned True.

    Raises:
        ControllerError: The controller refuses the job, or cannot serve its first submission
            and `is_patient` is False.
        OSError: The controller could not be reached for the first submission, likewise.
        ValueError: The controller finds the request invalid, or sends a line that is not a grant.
    """
    notices = notices or Notices()
    is_known = is_patient
    is_waiting = is_busy = is_gone = False
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
        except BaseException as error:  # Ctrl-C, too.
            connection.close()
            if not is_known or not _may_pass(error):
                raise
            refusal = str(error) if isinstance(error, ControllerError) else None
        if is_moot():
            return None
        if refusal is not None and not is_busy:
            is_busy = True
            notices.busy(refusal)
        elif refusal is None and not is_gone:
            is_gone = True
            notices.gone()
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def _may_pass(error: BaseException) -> bool:
    """Return whether a controller that knew the job may admit it later, despite this error."""
    if isinstance(error, ControllerError):
        return error.status >= _SERVER_ERROR
    return isinstance(error, OSError | EOFError)


def _stream(connection: Connection, job: Submitted) -> Lines:
    try:
        return connection.stream(f"{job.path}/grants")
    except ControllerError as error:
        if error.status != _NOT_FOUND:
            raise
        # The controller has restarted since the submission, and does not know the job.
        raise ConnectionError(str(error)) from None
