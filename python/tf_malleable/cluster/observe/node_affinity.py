# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Node affinity: whether a pod may run on a node, and what it requests there. Pure.

Of a scheduler's rules, only CPUs, memory, number of pods, taints, selectors and required node
affinity are followed. The scheduler has the last word: job_state.py handles pods that stay
unscheduled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tf_malleable.cluster import quantities
from tf_malleable.cluster.job_spec import Manifest

_ENDED: Final = ("Succeeded", "Failed")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Amount:
    """Amount of resources.

    Attributes:
        cpus: CPUs.
        memory: Memory, in bytes.
        pods: Number of pods.
    """

    cpus: float = 0.0
    memory: float = 0.0
    pods: int = 0

    def __add__(self, other: Amount) -> Amount:
        return Amount(
            round(self.cpus + other.cpus, 6), self.memory + other.memory, self.pods + other.pods
        )

    def __sub__(self, other: Amount) -> Amount:
        return Amount(
            round(self.cpus - other.cpus, 6), self.memory - other.memory, self.pods - other.pods
        )

    def holds(self, other: Amount) -> bool:
        """Return whether another amount is within this one."""
        less = self - other
        return less.cpus >= 0 and less.memory >= 0 and less.pods >= 0


def has_ended(pod: Manifest) -> bool:
    """Return whether a pod has ended and uses no resources any more."""
    return (pod.get("status") or {}).get("phase") in _ENDED


def requests(pod: Manifest) -> Amount:
    """Return what a pod requests: during a resize the maximum that it may have, as schedulers do.

    The maximum is that of the desired and the allocated resources of each container.
    """
    spec, status = pod["spec"], pod.get("status") or {}
    statuses = {one["name"]: one for one in status.get("containerStatuses") or ()}
    total = Amount()
    for container in spec.get("containers") or ():
        given = (container.get("resources") or {}).get("requests") or {}
        allocated = statuses.get(container["name"], {}).get("allocatedResources") or {}
        total += _most(given, allocated)
    for container in spec.get("initContainers") or ():
        given = _most((container.get("resources") or {}).get("requests") or {}, {})
        if container.get("restartPolicy") == "Always":
            total += given
        else:
            total = Amount(max(total.cpus, given.cpus), max(total.memory, given.memory))
    return total + _most(spec.get("overhead") or {}, {}) + Amount(pods=1)


def limits(pod: Manifest) -> Amount:
    """Return what a pod is limited to, as quotas count it; without a limit nothing."""
    spec, total = pod["spec"], Amount()
    for container in spec.get("containers") or ():
        total += _most((container.get("resources") or {}).get("limits") or {}, {})
    for container in spec.get("initContainers") or ():
        given = _most((container.get("resources") or {}).get("limits") or {}, {})
        if container.get("restartPolicy") == "Always":
            total += given
        else:
            total = Amount(max(total.cpus, given.cpus), max(total.memory, given.memory))
    return total + _most(spec.get("overhead") or {}, {})


def _most(first: Manifest, second: Manifest) -> Amount:
    cpus, memory = (
        max(quantities.number(first.get(name, 0)), quantities.number(second.get(name, 0)))
        for name in ("cpu", "memory")
    )
    return Amount(cpus, memory)


def allocatable(node: Manifest) -> Amount:
    """Return what a node can allocate to pods."""
    found = (node.get("status") or {}).get("allocatable") or {}
    return Amount(
        quantities.number(found.get("cpu", 0)),
        quantities.number(found.get("memory", 0)),
        int(quantities.number(found.get("pods", 110))),
    )


def is_ready(node: Manifest) -> bool:
    """Return whether a node is ready, so that pods run there."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def is_cordoned(node: Manifest) -> bool:
    """Return whether a node takes no new pods, whatever they tolerate."""
    return bool(node["spec"].get("unschedulable"))


def tolerates(spec: Manifest, taint: Manifest) -> bool:
    """Return whether a pod's spec tolerates a taint."""
    for one in spec.get("tolerations") or ():
        if one.get("effect") not in (None, "", taint.get("effect")):
            continue
        if one.get("operator", "Equal") == "Exists":
            if one.get("key") in (None, "", taint["key"]):
                return True
        elif one.get("key") == taint["key"] and one.get("value", "") == taint.get("value", ""):
            return True
    return False


def may_be_on(spec: Manifest, node: Manifest) -> bool:
    """Return whether a pod's spec allows a node: taints, node selector and required affinity."""
    for taint in node["spec"].get("taints") or ():
        if taint.get("effect") != "PreferNoSchedule" and not tolerates(spec, taint):
            return False
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(name) != value for name, value in (spec.get("nodeSelector") or {}).items()):
        return False
    affinity = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if not affinity:
        return True
    named = {"metadata.name": node["metadata"]["name"]}
    return any(_meets(term, labels, named) for term in affinity.get("nodeSelectorTerms") or ())


def _meets(term: Manifest, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
    asked = [(one, labels) for one in term.get("matchExpressions") or ()]
    asked += [(one, fields) for one in term.get("matchFields") or ()]
    return bool(asked) and all(_holds(one, values) for one, values in asked)


def _holds(asked: Manifest, values: Mapping[str, str]) -> bool:
    found = values.get(asked["key"])
    wanted: list[str] = list(asked.get("values") or ())
    operator = str(asked["operator"])
    if operator == "In":
        return found is not None and found in wanted
    if operator == "NotIn":
        return found not in wanted
    if operator in ("Exists", "DoesNotExist"):
        return (found is not None) == (operator == "Exists")
    try:
        number, limit = int(found or ""), int(wanted[0])
    except (ValueError, IndexError):
        return False
    return number > limit if operator == "Gt" else number < limit
