# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Containers without an engine: a test reports them to the controller."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.schema.messages import ContainerInfo
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.controller.ports import ContainerObserver, Found, Look
from tf_malleable.model import Cpuset


def found(pid: int | None = None, uid: int | None = None, **more: Any) -> Found:
    """Return a container that runs with this first process, or that was never started."""
    return Found(
        info=ContainerInfo("c" * 64, "training", "image", "cpuset"),
        request=JobRequest("training"),
        uid=os.getuid() if uid is None else uid,
        **{"state": "created" if pid is None else "running", "pid": pid, **more},
    )


class FakeContainer:
    """A container that notes what it is told, and does not do it."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def carry_out(self, cpus: Cpuset, *, frozen: bool) -> None:
        self.told.append((cpus, frozen))

    def end(self, *, by_force: bool) -> None:
        self.told.append("SIGKILL" if by_force else "SIGTERM")

    def look(self, pid: int) -> Look | None:
        return None

    def release(self) -> None:
        pass


class FakeContainers:
    """The containers of no engine; a test calls the observer in the engine's place."""

    observer: ContainerObserver

    def __init__(self, *existing: Found) -> None:
        self._existing: dict[str, Found] = {}
        self.asked = 0
        for each in existing:
            self.add(each)

    def add(self, container: Found) -> None:
        """Have a container, or have it in another state, without a report of that."""
        self._existing |= {container.info.name: container, container.info.id: container}

    async def start(self, observer: ContainerObserver) -> None:
        self.observer = observer

    async def find(self, container: str) -> Found:
        self.asked += 1
        if container not in self._existing:
            raise Refusal(404, f"there is no container {container!r}")
        return self._existing[container]

    def container(self, info: ContainerInfo, changed: Callable[[], None]) -> FakeContainer:
        return FakeContainer()

    async def close(self) -> None:
        pass
