# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""PodDisruptionBudgets: how many pods may be evicted, as a server works it out."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from tests.support.kubernetes.metadata import now
from tests.support.kubernetes.selectors import matches

Object = dict[str, Any]


def covers(budget: Object, pod: Object) -> bool:
    """Say whether a budget is for a pod."""
    same = budget["metadata"]["namespace"] == pod["metadata"]["namespace"]
    return same and matches(budget["spec"].get("selector"), pod["metadata"].get("labels", {}))


def is_healthy(pod: Object) -> bool:
    """Say whether a pod counts: it is ready, and is not on its way out."""
    conditions = pod.get("status", {}).get("conditions", ())
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def status(budget: Object, pods: Iterable[Object], scale: Callable[[Object], int | None]) -> Object:
    """Return a budget's status.

    For bare pods only a number that must stay is understood: a share of them, or a
    number that may go, is a share of what their controllers want, which they have not.

    Args:
        budget: The budget.
        pods: All pods of its namespace.
        scale: Returns the replicas that a pod's controller wants; None if it has none.
    """
    covered = [pod for pod in pods if covers(budget, pod)]
    healthy = sum(map(is_healthy, covered))
    spec = budget["spec"]
    expected: int | None = len(covered)
    if "maxUnavailable" in spec or isinstance(spec.get("minAvailable"), str):
        expected = _expected(covered, scale)
    if expected is None:
        return _written(budget, healthy, 0, 0, 0, "SyncFailed")
    if "maxUnavailable" in spec:
        desired = max(0, expected - _share(spec["maxUnavailable"], expected))
    else:
        desired = _share(spec.get("minAvailable", 1), expected)
    allowed = max(0, healthy - desired) if expected else 0
    reason = "SufficientPods" if allowed else "InsufficientPods"
    return _written(budget, healthy, desired, expected, allowed, reason)


def _expected(covered: list[Object], scale: Callable[[Object], int | None]) -> int | None:
    wanted: dict[str, int] = {}
    for pod in covered:
        replicas = scale(pod)
        if replicas is None:
            return None
        owners = pod["metadata"].get("ownerReferences", ())
        wanted |= {one["uid"]: replicas for one in owners if one.get("controller")}
    return sum(wanted.values())


def _share(value: Any, total: int) -> int:
    return math.ceil(int(value[:-1]) * total / 100) if isinstance(value, str) else int(value)


def _written(
    budget: Object, healthy: int, desired: int, expected: int, allowed: int, reason: str
) -> Object:
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": reason,
        "message": "",
        "observedGeneration": budget["metadata"].get("generation", 1),
    }
    before = budget.get("status", {}).get("conditions", ())
    same = [one for one in before if one["status"] == condition["status"]]
    condition["lastTransitionTime"] = same[0]["lastTransitionTime"] if same else now()
    return {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": budget["metadata"].get("generation", 1),
        "conditions": [condition],
    }
