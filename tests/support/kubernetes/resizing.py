# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Resizes in place on a node: whether one can be, and what it does to a container."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from tests.support.kubernetes import pods, quantities
from tests.support.kubernetes.runs import ContainerRun, PodRun

Object = dict[str, Any]


def obstacle(
    pod: Object, free: Mapping[str, Fraction], allocatable: Mapping[str, str]
) -> tuple[str, str] | None:
    """Return why a pod cannot have what it wants, as reason and message; None if it can.

    Args:
        pod: The pod.
        free: What of its node is set aside for no other pod.
        allocatable: What there is of it.
    """
    wanted = {k: v for k, v in pods.requests(pod).items() if k in allocatable}
    for name, value in wanted.items():
        if value > quantities.parse(allocatable[name]):
            asked = f"requested: {quantities.written(value)}, capacity: {allocatable[name]}"
            return "Infeasible", f"Node didn't have enough capacity: {name}, {asked}"
    for name, value in wanted.items():
        if value > free[name]:
            return "Deferred", f"Node didn't have enough resource: {name}"
    return None


def grows(pod: Object, run: PodRun) -> bool:
    """Return whether a pod wants more of anything than is allocated to it."""
    allocated = run.allocated()
    return any(value > allocated.get(name, 0) for name, value in pods.requests(pod).items())


def carry_out(container: ContainerRun) -> None:
    """Give a container what is allocated; restart it if its policy for that says so."""
    before = container.actual
    container.limit()
    policies = container.spec.get("resizePolicy", ())
    restarts = {p["resourceName"] for p in policies if p["restartPolicy"] == "RestartContainer"}
    differ = any(
        before.get(kind, {}).get(name) != container.actual.get(kind, {}).get(name)
        for kind in ("limits", "requests")
        for name in restarts
    )
    if differ and container.process is not None and container.runs:
        container.process.kill()
        container.last = container.note_end()
        container.restarts += 1
        container.due = 0.0
