# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the controller needs from a container engine, and from meters.

The controller treats containers like any other job. The packages `containers` and `power`
implement these protocols; the controller never imports them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from tf_malleable.api.job_request import JobRequest
from tf_malleable.api.messages import ContainerInfo
from tf_malleable.api.power import PowerStatus
from tf_malleable.model import Budget, Cpuset, PowerCurve
from tf_malleable.scheduling.energy import Energy

CANNOT_RUN: Final = 125
"""Exit code of a container that could not be run, as of docker run."""

ContainerState = Literal["created", "running", "ended"]


@dataclass(frozen=True)
class Found:
    """A container that should be a job, as reported by its engine.

    Attributes:
        info: Its id, name and image.
        request: The job request from its labels.
        uid: User id of the job.
        state: ``"created"`` if it was never started; a frozen container is ``"running"``.
        pid: Its first process in the host's PID namespace; None unless running.
        exit_code: As in a shell; None unless it has ended.
    """

    info: ContainerInfo
    request: JobRequest
    uid: int
    state: ContainerState
    pid: int | None = None
    exit_code: int | None = None


@dataclass(frozen=True)
class Look:
    """The state of a running container, read from its cgroup.

    Attributes:
        in_force: What it was last told is in force.
        stopped: It was frozen by somebody else.
        cpu_seconds: CPU time it has used.
        pids: Its processes in the host's PID namespace.
    """

    in_force: bool
    stopped: bool
    cpu_seconds: float
    pids: tuple[int, ...]


class Container(Protocol):
    """One container. No call waits for the engine: commands are carried out soon after.

    If the engine is down, they are carried out when it is back.
    """

    def carry_out(self, cpus: Cpuset, *, frozen: bool) -> None:
        """Run it on these CPUs, or freeze it; start it if it was never started."""

    def end(self, *, by_force: bool) -> None:
        """End it with SIGTERM or SIGKILL; remove it if it was never started."""

    def look(self, pid: int) -> Look | None:
        """Return its state as read from its cgroup; None if it cannot be read.

        Args:
            pid: Its first process.
        """

    def release(self) -> None:
        """Stop observing it; the last command is still carried out."""


class ContainerObserver(Protocol):
    """Receives reports about containers. Called in the controller's loop."""

    def seen(self, found: Found) -> None:
        """Handle a container's current state; it may have been reported before."""

    def gone(self, container: str) -> None:
        """Handle that there is no container with this id, or no longer."""

    def all_seen(self, containers: Collection[str]) -> None:
        """Handle the ids of all containers, after the engine (re)connects."""


class Containers(Protocol):
    """The containers of one engine that are, or may become, jobs of this controller."""

    async def start(self, observer: ContainerObserver) -> None:
        """Start reporting to an observer, first all existing containers if an engine answers."""

    async def find(self, container: str) -> Found:
        """Return a container.

        Args:
            container: Its name, its id, or a prefix of its id.

        Raises:
            Refusal: There is no such container, it does not belong to this controller, its
                labels are invalid, or no engine answers.
        """

    def container(self, info: ContainerInfo, changed: Callable[[], None]) -> Container:
        """Return an object that controls a container.

        Args:
            info: The container.
            changed: Called when it may have reached its wanted state.
        """

    async def close(self) -> None:
        """Finish pending commands if possible, and stop."""


class BudgetObserver(Protocol):
    """Receives budgets that come from elsewhere. Called in the controller's loop."""

    def given(self, author: str, budget: Budget) -> None:
        """Take a budget of an author.

        Raises:
            ValueError: It is refused; the message says why, in one sentence.
        """

    def withdrawn(self, author: str) -> None:
        """Note that an author's budget is void: withdrawn, or nothing is heard of its author."""

    def profile(self) -> PowerStatus:
        """Return what the host draws, to be told elsewhere."""


class Power(Protocol):
    """What this host draws, and who may limit it."""

    @property
    def area(self) -> str:
        """The area that the host belongs to."""

    @property
    def meter(self) -> str | None:
        """What measures, for people; None if nothing does."""

    @property
    def curve(self) -> PowerCurve | None:
        """What the host draws by load; None if it was never calibrated."""

    @property
    def problem(self) -> str | None:
        """Why there is no better value; None if nothing is wrong."""

    async def start(self, observer: BudgetObserver) -> None:
        """Start to listen for budgets."""

    def draw(self, busy_seconds: float) -> Energy | None:
        """Return what was drawn since the last call.

        Takes no longer than a few milliseconds.

        Args:
            busy_seconds: CPU time of everything on the host since then.

        Returns:
            None if nothing is known, as at the first call.
        """

    async def close(self) -> None:
        """Stop listening."""
