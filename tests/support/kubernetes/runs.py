# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Containers and pods as a kubelet has them, and the status that it reports of them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

from tests.support.kubernetes import conditions, quantities
from tests.support.kubernetes.metadata import now
from tests.support.kubernetes.processes import Process

Object = dict[str, Any]
_KILLED = 137
_MESSAGE_BYTES, _MESSAGE_LINES = 2048, 80


@dataclass
class ContainerRun:
    """A container of a pod that is on a node.

    Attributes:
        allocated: The resources that the kubelet has set aside for it.
        actual: Those that its process has.
        waiting: Why it does not run, as reason and message.
        printed: Where its process prints, or has.
        due: When it may be tried to start it, by the monotonic clock.
    """

    spec: Object
    allocated: Object
    output: Path
    printed: Path | None = None
    process: Process | None = None
    started: str = ""
    finished: str = ""
    restarts: int = 0
    failures: int = 0
    last: Object | None = None
    waiting: tuple[str, str] = ("ContainerCreating", "")
    due: float = 0.0
    ended: Object | None = None
    actual: Object = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.spec["name"])

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.code is None

    def limit(self) -> None:
        """Give the process what is allocated."""
        limit = self.allocated.get("limits", {}).get("cpu")
        if self.process is not None:
            self.process.limit(None if limit is None else float(quantities.parse(limit)))
        self.actual = self.allocated

    def status(self) -> Object:
        """Return its ContainerStatus."""
        if self.ended is not None:
            state: Object = {"terminated": self.ended}
        elif self.runs:
            state = {"running": {"startedAt": self.started}}
        else:
            reason, message = self.waiting
            state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        running = "running" in state
        status = {
            "name": self.name,
            "image": self.spec["image"],
            "imageID": "",
            "ready": running,
            "started": running,
            "restartCount": self.restarts,
            "state": state,
            "lastState": {"terminated": self.last} if self.last else {},
            "allocatedResources": self.allocated.get("requests", {}),
            "resources": self.actual or self.allocated,
        }
        return status

    def note_end(self) -> Object:
        """Return how the process ended, and have none."""
        assert self.process is not None
        code, self.process = self.process.code, None
        end = terminated(code if code is not None else _KILLED, self.started)
        policy = self.spec.get("terminationMessagePolicy")
        if code and policy == "FallbackToLogsOnError" and self.printed is not None:
            with self.printed.open("rb") as file:
                file.seek(max(0, self.printed.stat().st_size - _MESSAGE_BYTES))
                said = file.read().decode(errors="replace")
            if said:
                end["message"] = "\n".join(said.split("\n")[-_MESSAGE_LINES:])
        return end


def terminated(code: int, started: str) -> Object:
    """Return the state of a container that has ended."""
    reason = "Completed" if code == 0 else "Error"
    return {"exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now()}


@dataclass
class PodRun:
    """A pod that is on a node.

    Attributes:
        stop_at: When its processes are killed, by the monotonic clock; None if it is not to stop.
        pending: Why a resize is not carried out, as reason and message.
        in_progress: A resize is being carried out.
        resize_begun: Since when, by the monotonic clock; None if none is.
        over_at: When all that is left of it is taken down, by the monotonic clock; None while a
            container has not ended.
        is_over: All that was left of it is taken down.
    """

    uid: str
    ip: str
    containers: list[ContainerRun]
    started: str = field(default_factory=now)
    stop_at: float | None = None
    pending: tuple[str, str] | None = None
    in_progress: bool = False
    resize_begun: float | None = None
    over_at: float | None = None
    is_over: bool = False

    @property
    def runs(self) -> bool:
        return any(container.runs for container in self.containers)

    def note_end(self, teardown: float) -> None:
        """Begin to take down what is left, which takes so many seconds, if all have ended."""
        if self.over_at is None and all(container.ended for container in self.containers):
            self.over_at = time.monotonic() + teardown
        self.is_over = self.over_at is not None and time.monotonic() >= self.over_at

    def allocated(self) -> dict[str, Fraction]:
        """Return what is set aside for all its containers."""
        total = {"pods": Fraction(1)}
        for container in self.containers:
            for name, quantity in container.allocated.get("requests", {}).items():
                total[name] = total.get(name, Fraction(0)) + quantities.parse(quantity)
        return total

    def phase(self) -> str:
        """Return the pod's phase."""
        ends = [container.ended for container in self.containers]
        if all(ends) and self.is_over:
            return "Failed" if any(end["exitCode"] for end in ends if end) else "Succeeded"
        begun = all(c.started or c.ended for c in self.containers)
        return "Running" if begun else "Pending"

    def status(self, pod: Object, host: str) -> Object:
        """Return the pod's status, from the one that it has."""
        phase = self.phase()
        status = {
            **pod["status"],
            "phase": phase,
            "hostIP": host,
            "hostIPs": [{"ip": host}],
            "podIP": self.ip,
            "podIPs": [{"ip": self.ip}],
            "startTime": self.started,
            "containerStatuses": [container.status() for container in self.containers],
            "observedGeneration": pod["metadata"].get("generation", 1),
        }
        ready = all(container.runs for container in self.containers)
        over = phase in ("Succeeded", "Failed")
        reason = {True: "PodCompleted" if phase == "Succeeded" else "PodFailed"}.get(over, "")
        why = "" if ready else reason or "ContainersNotReady"
        for kind, good in (
            ("PodReadyToStartContainers", not over),
            ("Initialized", True),
            ("ContainersReady", ready),
            ("Ready", ready),
        ):
            said = why if not good and kind.endswith("Ready") else ""
            one = conditions.condition(kind, "True" if good else "False", said)
            status = conditions.with_condition(status, one)
        return self._with_resize(status, pod)

    def _with_resize(self, status: Object, pod: Object) -> Object:
        seen = {"observedGeneration": pod["metadata"].get("generation", 1)}
        if self.pending is not None:
            one = conditions.condition("PodResizePending", "True", *self.pending, **seen)
            status = conditions.with_condition(status, one)
        else:
            status = conditions.without(status, "PodResizePending")
        if self.in_progress:
            one = conditions.condition("PodResizeInProgress", "True", **seen)
            return conditions.with_condition(status, one)
        return conditions.without(status, "PodResizeInProgress")
