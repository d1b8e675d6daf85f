# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One connection of a job to its controller, from the submission to its end.

All of it happens in one thread, which waits for grants and between them reports
how far the job is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from tf_malleable.agent import grants, report, steps
from tf_malleable.api.admission import Submitted, submit
from tf_malleable.api.connection import Connection
from tf_malleable.api.grant_line import GrantLine
from tf_malleable.api.join import Join
from tf_malleable.api.lines import Lines
from tf_malleable.model import ControllerError

_REPORT_SECONDS: Final = 1.0
_TIMEOUT: Final = 5.0
# The program waits so long for its last report at most.
_LAST_TIMEOUT: Final = 0.5
_LARGEST_ANSWER: Final = 1 << 20

# The longest that we wait at a time for tasks to end; in between we look for a
# newer grant.
_SLICE_SECONDS: Final = 0.005
# Threads that are still in a task after so long are moved to the granted CPUs all
# the same. It is in force then, which we say, if not yet settled.
_PATIENCE_SECONDS: Final = 0.005
# A task that takes longer than this may take very long; we look seldom.
_LONG_TASK_SECONDS: Final = 0.2
_PAUSE_SECONDS: Final = 0.05


def connection_to(join: Join) -> Connection:
    """Return a connection to this job's controller, as an agent uses it."""
    return Connection(join.socket, timeout=_TIMEOUT, largest=_LARGEST_ANSWER)


def report_at_exit(join: Join, path: str) -> None:
    """Say how far the job has come in the end, what it did since the last report included.

    Args:
        join: The job.
        path: Session.path of its last session.

    Raises:
        OSError, ControllerError: It could not be said.
    """
    connection = Connection(join.socket, timeout=_LAST_TIMEOUT, largest=_LARGEST_ANSWER)
    try:
        connection.request("POST", f"{path}/progress", report.progress())
    finally:
        connection.close()


@dataclass(frozen=True)
class _Pending:
    """A grant that has not settled.

    Attributes:
        grant: It.
        since: When it came, on the monotonic clock.
        in_force: It was carried out and acknowledged, but tasks have yet to end.
    """

    grant: GrantLine
    since: float
    in_force: bool = False


class Session:
    """A job at its controller.

    Attributes:
        path: Where the controller has this job.
    """

    def __init__(self, connection: Connection, job: Submitted, lines: Lines) -> None:
        """Take up a job.

        Args:
            connection: To the controller.
            job: As it was submitted there.
            lines: Its stream of grants.
        """
        self.path = job.path
        self._connection = connection
        self._lines = lines
        self._pending: _Pending | None = None

    @classmethod
    def rejoin(cls, connection: Connection, join: Join) -> Session:
        """Return the session of a process that computes already.

        Raises:
            ControllerError: The controller refuses.
            OSError: It cannot be reached, or is none.
        """
        job = submit(connection, join.request, running=True)
        return cls(connection, job, connection.stream(f"{job.path}/grants"))

    def begin(self, grant: GrantLine) -> None:
        """Confine the process to its first CPUs, before it computes.

        Raises:
            OSError, ControllerError: The connection is of no more use.
        """
        if not grant.cpus:
            # It has lent its CPUs while it waited; now it needs them.
            grant = replace(grant, cpus=grant.lent)
        self._take(grant)
        while self._pending is not None and not self._pending.in_force:
            self._go_on(self._pending)

    def serve(self, stopping: Callable[[], bool]) -> None:
        """Carry out grants and report, until told to stop.

        Raises:
            EOFError: The job has ended at the controller.
            OSError, ValueError, ControllerError: The connection is of no more use.
        """
        due = time.monotonic()
        while not stopping():
            line = self._next(min(due - time.monotonic(), steps.look_for_keras()))
            if line is not None:
                self._take(GrantLine.read(line))
            if self._pending is not None:
                self._go_on(self._pending)
            if time.monotonic() >= due:
                self._post("progress", report.progress())
                due = time.monotonic() + _REPORT_SECONDS

    def _next(self, seconds: float) -> dict[str, Any] | None:
        if self._pending is not None:
            seconds = min(seconds, _PAUSE_SECONDS if _takes_long(self._pending) else 0.0)
        return self._lines.next_within(max(0.0, seconds))

    def _take(self, grant: GrantLine) -> None:
        """Begin to carry out a grant."""
        self._pending = None
        if grant.state == "running":
            grants.make_room(grant)
            self._pending = _Pending(grant, time.monotonic())

    def _go_on(self, pending: _Pending) -> None:
        """Carry out a grant as soon as that disturbs no task, or as it must be."""
        settled = grants.is_settled(0.0 if _takes_long(pending) else _SLICE_SECONDS)
        late = time.monotonic() - pending.since >= _PATIENCE_SECONDS
        if not settled and (pending.in_force or not late):
            return
        self._pending = None if settled else replace(pending, in_force=True)
        if not pending.in_force and not grants.carry_out(pending.grant):
            self._pending = None  # Not acknowledged; that tells the controller.
            return
        try:
            self._acknowledge(pending.grant.serial, settled=settled)
        finally:
            grants.follow(pending.grant)

    def _acknowledge(self, serial: int, *, settled: bool) -> None:
        try:
            self._post("acknowledgements", {"serial": serial, "settled": settled})
        except ControllerError as error:
            if error.status != 409:  # The state has changed meanwhile; a new line will come.
                raise

    def _post(self, what: str, body: object) -> None:
        self._connection.request("POST", f"{self.path}/{what}", body)


def _takes_long(pending: _Pending) -> bool:
    return time.monotonic() - pending.since >= _LONG_TASK_SECONDS
