# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the controller asks of containers, whatever engine they are in.

The controller decides on containers as on any other job. How an engine is spoken to
is a matter of the floor above; here is what it has to offer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, Protocol

from tf_malleable.api.job_request import JobRequest
from tf_malleable.api.messages import ContainerInfo
from tf_malleable.model import Cpuset

ContainerState = Literal["created", "running", "ended"]


@dataclass(frozen=True)
class Found:
    """A container that is to be a job, as its engine has it.

    Attributes:
        info: What people know it by.
        request: What it asks for, as its labels say.
        uid: Whose job it is.
        state: ``"created"``: it was never started. One that is frozen is running.
        pid: Its first process as this host counts; None unless running.
        exit_code: As a shell has it; None unless it has ended.
    """

    info: ContainerInfo
    request: JobRequest
    uid: int
    state: ContainerState
    pid: int | None = None
    exit_code: int | None = None


@dataclass(frozen=True)
class Look:
    """What the kernel says of a running container.

    Attributes:
        in_force: Its cgroup's files say that it is as it was last told to be.
        stopped: It is frozen although it was told to run, and did.
        cpu_seconds: CPU time it has used.
        pids: Its processes, as this host counts.
    """

    in_force: bool
    stopped: bool
    cpu_seconds: float
    pids: tuple[int, ...]


class Container(Protocol):
    """One container. No call waits for the engine: what it is told is done soon.

    If the engine is gone, that is as soon as it is back.
    """

    def carry_out(self, cpus: Cpuset, *, frozen: bool) -> None:
        """Have it run on these CPUs, or frozen; start it if it was never started."""

    def end(self, *, by_force: bool) -> None:
        """Tell it to end, with SIGTERM or SIGKILL; remove it if it was never started."""

    def look(self, pid: int) -> Look | None:
        """Return what the kernel says of it, None if nothing.

        Args:
            pid: Its first process.
        """

    def let_go(self) -> None:
        """Do nothing more to it but what it was told last."""


class ContainerObserver(Protocol):
    """Who is told about containers. In the controller's loop, as all here."""

    def seen(self, found: Found) -> None:
        """A container is as it says; it may have been told before."""

    def gone(self, container: str) -> None:
        """There is no container with this id any more, or never was."""

    def all_seen(self, containers: Collection[str]) -> None:
        """These are all there are: an engine answers for the first time, or again."""


class Containers(Protocol):
    """The containers of one engine that are jobs of this controller, or may be."""

    async def start(self, observer: ContainerObserver) -> None:
        """Tell an observer about them from now on; first about all there are, if any answers."""

    async def find(self, container: str) -> Found:
        """Return a container.

        Args:
            container: Its name, or its id or the beginning of that.

        Raises:
            Refusal: There is none, it is none of ours, its labels cannot be, or no
                engine answers.
        """

    def container(self, info: ContainerInfo, changed: Callable[[], None]) -> Container:
        """Return what drives a container.

        Args:
            info: Which.
            changed: Is called when it may have become as it was told to be.
        """

    async def close(self) -> None:
        """Finish what was told to the containers so far, as far as it goes, and stop."""
