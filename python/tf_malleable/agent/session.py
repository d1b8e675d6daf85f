# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Session: one connection of a job to its controller, from the submission to its end.

A single thread serves the session: it waits for grants and reports progress in between.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from tf_malleable.agent import report, request_latency, serving_calls, steps
from tf_malleable.api.schema.grant_line import GrantLine
from tf_malleable.api.schema.join import Join
from tf_malleable.api.transport.admission import Submitted, submit
from tf_malleable.api.transport.connection import Connection
from tf_malleable.api.transport.json_lines import Lines
from tf_malleable.model import ControllerError
from tf_malleable.runtime import cpuset, library, limits, openmp

_BAD_REQUEST: Final = 400
_REPORT_SECONDS: Final = 1.0
# Interval of the reports of requests, once there have been any.
_REQUESTS_SECONDS: Final = 0.1
# Interval of the looks whether others have changed the CPU affinity.
_AFFINITY_SECONDS: Final = 0.5
_TIMEOUT: Final = 5.0
# Longest time that the program's exit waits for the last report.
_LAST_TIMEOUT: Final = 0.5
_LARGEST_ANSWER: Final = 1 << 20

# How long to wait for tasks to end before looking for a newer grant.
_SLICE_SECONDS: Final = 0.005
# After this time, threads that still run a task are moved to the granted CPUs anyway.
# The grant is then acknowledged as in force, but not as settled.
_PATIENCE_SECONDS: Final = 0.005
# A task that takes longer than this may take very long, so it is polled less often.
_LONG_TASK_SECONDS: Final = 0.2
_PAUSE_SECONDS: Final = 0.05


def connection_to(join: Join) -> Connection:
    """Return a connection to this job's controller, with the agent's time and size limits."""
    return Connection(join.socket, timeout=_TIMEOUT, largest=_LARGEST_ANSWER)


def report_at_exit(join: Join, path: str) -> None:
    """Send the job's final progress on a new connection, if its last session could not.

    Args:
        join: The job and its controller.
        path: Session.path of the last session.

    Raises:
        OSError: The controller does not answer.
        ControllerError: The controller refuses the report.
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
        grant: The grant.
        since: Time of arrival, in seconds on the monotonic clock.
        in_force: True if it was applied and acknowledged, but some tasks have not ended.
    """

    grant: GrantLine
    since: float
    in_force: bool = False


class Session:
    """Session of a job with its controller.

    Attributes:
        path: The job's path in the HTTP API.
    """

    def __init__(self, connection: Connection, job: Submitted, lines: Lines) -> None:
        """Start a session.

        Args:
            connection: Connection to the controller.
            job: The submitted job.
            lines: The job's stream of grants.
        """
        self.path = job.path
        self._connection = connection
        self._lines = lines
        self._pending: _Pending | None = None
        # CPUs that the process is confined to, and how many of them it could use lately.
        self._cpus: Sequence[int] = ()
        self._usable = 0
        # When requests may be reported again; None if the controller does not know them.
        self._requests_due: float | None = 0.0
        # Whether the controller knows parallel regions.
        self._counts_regions = True

    @classmethod
    def rejoin(cls, connection: Connection, join: Join) -> Session:
        """Return the session of a process that is already computing.

        Raises:
            ControllerError, ValueError: The controller refuses the job.
            OSError: The controller cannot be reached, or the peer is not a controller.
        """
        job = submit(connection, join.request, running=True)
        return cls(connection, job, connection.stream(f"{job.path}/grants"))

    def begin(self, grant: GrantLine) -> None:
        """Confine the process to its first CPUs, before it computes.

        Raises:
            OSError, ControllerError: The connection can no longer be used.
        """
        if not grant.cpus:
            # The job lent its CPUs while it waited; now it needs them.
            grant = replace(grant, cpus=grant.lent)
        self._take(grant)
        while self._pending is not None and not self._pending.in_force:
            self._go_on(self._pending)

    def serve(self, stopping: Callable[[], bool]) -> None:
        """Apply grants and report progress until `stopping` returns True.

        Raises:
            EOFError: The controller has ended the job.
            OSError, ValueError, ControllerError: The connection can no longer be used.
        """
        due = time.monotonic()
        if not report.has_steps():
            due += _REPORT_SECONDS  # There is nothing worth reporting yet.
        while not stopping():
            used = request_latency.is_used()
            rest = min(due - time.monotonic(), _REQUESTS_SECONDS if used else _AFFINITY_SECONDS)
            serving_calls.look()
            line = self._next(min(rest, steps.look_for_training()))
            if line is not None:
                self._take(GrantLine.read(line))
            if self._pending is not None:
                self._go_on(self._pending)
            elif self._cpus:
                self._usable = cpuset.follow_affinity(self._cpus, self._usable)
            if time.monotonic() >= due:
                self._post("progress", report.progress())
                self._report_regions()
                due = time.monotonic() + _REPORT_SECONDS
            self._report_requests()

    def report_at_exit(self) -> None:
        """Send the final progress on the open connection.

        Raises:
            OSError, ControllerError: The connection can no longer be used.
        """
        self._connection.limit(_LAST_TIMEOUT)
        self._post("progress", report.progress())
        self._report_requests()

    def _report_regions(self) -> None:
        """Report the parallel regions of a program that reports no steps."""
        regions = openmp.regions() if self._counts_regions and not report.has_steps() else 0
        if regions:
            self._counts_regions = self._tell({"regions": regions})

    def _report_requests(self) -> None:
        """Report the latencies of requests that are new, at most ten times a second."""
        now = time.monotonic()
        if self._requests_due is None or now < self._requests_due:
            return
        requests = request_latency.report()
        if requests is None:
            return
        is_known = self._tell({"requests": requests})
        self._requests_due = now + _REQUESTS_SECONDS if is_known else None

    def _tell(self, progress: dict[str, Any]) -> bool:
        """Report what an older controller does not know; return whether this one does."""
        try:
            self._post("progress", progress)
        except ControllerError as error:
            if error.status != _BAD_REQUEST:
                raise
            return False
        return True

    def _next(self, seconds: float) -> dict[str, Any] | None:
        if self._pending is not None:
            seconds = min(seconds, _PAUSE_SECONDS if _takes_long(self._pending) else 0.0)
        return self._lines.next_within(max(0.0, seconds))

    def _take(self, grant: GrantLine) -> None:
        """Begin to apply a grant."""
        self._pending = None
        if grant.state == "running":
            _make_room(grant)
            self._pending = _Pending(grant, time.monotonic())

    def _go_on(self, pending: _Pending) -> None:
        """Apply a grant once the pools have settled, or after _PATIENCE_SECONDS."""
        settled = _is_settled(0.0 if _takes_long(pending) else _SLICE_SECONDS)
        late = time.monotonic() - pending.since >= _PATIENCE_SECONDS
        if not settled and (pending.in_force or not late):
            return
        self._pending = None if settled else replace(pending, in_force=True)
        if not pending.in_force and not _carry_out(pending.grant):
            self._pending = None  # The missing acknowledgement tells the controller.
            return
        if pending.grant.cpus:
            self._cpus = () if pending.grant.confined else pending.grant.cpus
            self._usable = len(self._cpus)
        try:
            self._acknowledge(pending.grant.serial, settled=settled)
        finally:
            _follow(pending.grant)

    def _acknowledge(self, serial: int, *, settled: bool) -> None:
        try:
            self._post("acknowledgements", {"serial": serial, "settled": settled})
        except ControllerError as error:
            if error.status != 409:  # The grant has changed meanwhile; a new line follows.
                raise

    def _post(self, what: str, body: object) -> None:
        self._connection.request("POST", f"{self.path}/{what}", body)


def _takes_long(pending: _Pending) -> bool:
    return time.monotonic() - pending.since >= _LONG_TASK_SECONDS


def _make_room(grant: GrantLine) -> None:
    """Begin to apply a grant: lower the limits that are above its number of CPUs."""
    if grant.cpus:
        cpuset.make_room(len(grant.cpus))


def _carry_out(grant: GrantLine) -> bool:
    """Confine the process, except for the calling thread, to its granted CPUs.

    If the controller confines the process itself, only the limits are set. If the job
    has lent all its CPUs, it is asleep and nothing changes.

    Returns:
        False if the process may use none of these CPUs.
    """
    try:
        if grant.cpus and grant.confined:
            cpuset.limit_to(len(grant.cpus))
        elif grant.cpus:
            cpuset.confine_others(grant.cpus)
    except OSError:
        return False
    return True


def _follow(grant: GrantLine) -> None:
    """Confine the calling thread too, after the grant has been acknowledged."""
    if grant.cpus and not grant.confined:
        cpuset.confine_caller(grant.cpus)


def _is_settled(within: float) -> bool:
    """Return whether no pool has more active workers than its limit; wait up to `within` s."""
    return library.backend() is None or limits.wait_settled(within)
