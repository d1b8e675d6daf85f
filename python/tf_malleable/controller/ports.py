# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Ports: the interfaces that the controller needs from a container engine and a power meter.

The controller treats containers like any other job. The packages `containers` and `power`
implement these protocols; the controller never imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.messages import ContainerInfo
from tf_malleable.api.schema.power import PowerStatus
from tf_malleable.model import Budget, Cpuset, PowerCurve
from tf_malleable.scheduling.energy.energy_lines import Energy

CANNOT_RUN: Final = 125
"""Exit code of a container that could not be run, as with docker run."""

ContainerState = Literal["created", "running", "ended"]


@dataclass(frozen=True)
class Found:
    """A container that should be a job, as reported by its engine.

    Attributes:
        info: Id, name and image of the container.
        request: Job request from the container's labels.
        uid: User id of the job.
        state: ``"created"`` if it was never started; a frozen container is ``"running"``.
        pid: Pid of the first process in the host's PID namespace; None unless running.
        exit_code: Exit code as in a shell; None unless the container has ended.
        out_of_memory: True if the kernel has killed a process of it for lack of memory, according
            to the engine, which knows that when the container has ended.
    """

    info: ContainerInfo
    request: JobRequest
    uid: int
    state: ContainerState
    pid: int | None = None
    exit_code: int | None = None
    out_of_memory: bool = False


@dataclass(frozen=True)
class Look:
    """State of a running container, read from its cgroup.

    Attributes:
        in_force: True if the last command is in force.
        stopped: True if the container is frozen, but not by the controller.
        cpu_seconds: CPU time used by the container.
        pids: Pids of its processes in the host's PID namespace.
    """

    in_force: bool
    stopped: bool
    cpu_seconds: float
    pids: tuple[int, ...]


class Container(Protocol):
    """One container. No call waits for the engine: commands are carried out soon after.

    If the engine is down, commands are carried out when it is back.
    """

    def carry_out(self, cpus: Cpuset, *, frozen: bool) -> None:
        """Run the container on these CPUs, or freeze it; start it if it was never started."""

    def end(self, *, by_force: bool) -> None:
        """End the container with SIGTERM or SIGKILL; remove it if it was never started."""

    def look(self, pid: int) -> Look | None:
        """Return the container's state as read from its cgroup; None if it cannot be read.

        Args:
            pid: Pid of the container's first process.
        """

    def release(self) -> None:
        """Stop observing the container; the last command is still carried out."""


class ContainerObserver(Protocol):
    """Receiver of reports about containers. Called in the controller's loop."""

    def seen(self, found: Found) -> None:
        """Handle a container's current state; it may have been reported before."""

    def gone(self, container: str) -> None:
        """Handle that there is no container with this id, or no longer."""

    def all_seen(self, containers: Collection[str]) -> None:
        """Handle the ids of all containers, after the engine (re)connects."""


class Containers(Protocol):
    """Containers of one engine that are, or may become, jobs of this controller."""

    async def start(self, observer: ContainerObserver) -> None:
        """Start reporting to an observer, first all existing containers if an engine answers."""

    async def find(self, container: str) -> Found:
        """Return a container.

        Args:
            container: Name or id of the container, or a prefix of the id.

        Raises:
            Refusal: There is no such container, it does not belong to this controller, its
                labels are invalid, or no engine answers.
        """

    def container(self, info: ContainerInfo, changed: Callable[[], None]) -> Container:
        """Return an object that controls a container.

        Args:
            info: The container.
            changed: Called when the container may have reached its wanted state.
        """

    async def close(self) -> None:
        """Finish pending commands if possible, and stop."""


class BudgetObserver(Protocol):
    """Receiver of budgets from outside this host. Called in the controller's loop."""

    def given(self, author: str, budget: Budget) -> None:
        """Accept a budget of an author.

        Raises:
            ValueError: The budget is refused; the message gives the reason in one sentence.
        """

    def withdrawn(self, author: str) -> None:
        """Handle that an author's budget is void: withdrawn, or the author has gone silent."""

    def profile(self) -> PowerStatus:
        """Return the power status of the host, to be published."""


class Power(Protocol):
    """Power meter of this host, and source of budgets."""

    @property
    def area(self) -> str:
        """Area of the host."""

    @property
    def meter(self) -> str | None:
        """Description of the meter, for people; None if there is none."""

    @property
    def curve(self) -> PowerCurve | None:
        """Power draw of the host by load; None if it was never calibrated."""

    @property
    def problem(self) -> str | None:
        """Reason why there are no better values; None if there is no problem."""

    async def start(self, observer: BudgetObserver) -> None:
        """Start listening for budgets."""

    def draw(self, busy_seconds: float) -> Energy | None:
        """Return the energy drawn since the last call.

        The call takes at most a few milliseconds.

        Args:
            busy_seconds: CPU time of everything on the host since then.

        Returns:
            The energy; None if unknown, as at the first call.
        """

    async def close(self) -> None:
        """Stop listening."""
