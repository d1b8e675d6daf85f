# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Capacity of nodes and quotas of namespaces for the members of all trainings. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush, heapreplace
from math import inf
from typing import Final

from tf_malleable.cluster import quantities, resource_names
from tf_malleable.cluster.job_spec import CoordinatorSpec, JobSpec, Manifest, seconds_of
from tf_malleable.cluster.observe.node_affinity import (
    Amount,
    allocatable,
    has_ended,
    is_cordoned,
    is_ready,
    limits,
    may_be_on,
    requests,
    tolerates,
)
from tf_malleable.cluster.observe.pod_status import owner_uid
from tf_malleable.cluster.planning.capacity import NamespaceQuota, NodeCapacity

# A deleted pod counts as gone until this long after its grace period, and then as present again.
_LATE_SECONDS: Final = 15.0
_MEMBERS: Final = (resource_names.WORKER, resource_names.SERVER)
_REQUESTED: Final = {"cpus": ("requests.cpu", "cpu"), "memory": ("requests.memory", "memory")}


@dataclass(frozen=True)
class OwnPods:
    """Pods whose requests the planner can share out anew.

    Attributes:
        uids: Uids of the jobs that are carried out.
        now: Current time, in seconds since the epoch.
        only_in: Only namespace whose jobs are carried out; None for all.
    """

    uids: Collection[str]
    now: float
    only_in: str | None = None

    def __contains__(self, pod: Manifest) -> bool:
        """Return whether a pod is one of them."""
        metadata = pod["metadata"]
        if (metadata.get("labels") or {}).get(resource_names.ROLE) not in _MEMBERS:
            return False
        if self.only_in not in (None, metadata.get("namespace")):
            return False
        if "deletionTimestamp" in metadata:
            return self.now < seconds_of(metadata["deletionTimestamp"]) + _LATE_SECONDS
        return owner_uid(pod) in self.uids


def rooms(
    nodes: Iterable[Manifest],
    pods: Iterable[Manifest],
    floors: Mapping[str, float],
    own: OwnPods,
) -> tuple[NodeCapacity, ...]:
    """Return the capacity of each node.

    Args:
        nodes: All nodes.
        pods: All pods of the cluster.
        floors: Minimum CPUs with which each job that is carried out can go on, by uid.
        own: Pods whose requests are not subtracted.
    """
    found = {node["metadata"]["name"]: node for node in nodes}
    free = {name: allocatable(node) for name, node in found.items()}
    ours: dict[tuple[str, str], Amount] = defaultdict(Amount)
    waiting = []
    for pod in pods:
        if has_ended(pod):
            continue
        annotations = pod["metadata"].get("annotations") or {}
        where = pod["spec"].get("nodeName") or annotations.get(resource_names.NODE, "")
        # Others' pods go there, for which a scheduler has pods of lower priority deleted.
        where = where or (pod.get("status") or {}).get("nominatedNodeName", "")
        shared = pod in own
        if where in free and shared:
            ours[where, owner_uid(pod)] += requests(pod)
        elif where in free:
            free[where] -= requests(pod)
        elif not where and not shared and _lacks_resources(pod):
            waiting.append(pod)
    for pod in sorted(waiting, key=_rank):
        _make_way(pod, found, free, ours, floors)
    return tuple(
        NodeCapacity(
            name, left.cpus, left.memory, left.pods, is_ready(found[name]), _leaving(found[name])
        )
        for name, left in free.items()
    )


def held_until(
    pods: Iterable[Manifest], before: Mapping[str, float], now: float
) -> dict[str, float]:
    """Return until when pods that are being deleted may keep what they request, or kept it.

    Args:
        pods: All pods of the cluster.
        before: What this returned the last time.
        now: Current time, in seconds since the epoch.

    Returns:
        The latest end of their grace periods, in seconds since the epoch, by node. Once they have
        gone, it is when that was seen, so that a scheduler has time to use what they had.
    """
    held = {node: min(by, now) for node, by in before.items()}
    for pod in pods:
        by = seconds_of(pod["metadata"].get("deletionTimestamp"))
        node = pod["spec"].get("nodeName")
        if by and node and not has_ended(pod):
            held[node] = max(by, held.get(node, by))
    return held


def _rank(pod: Manifest) -> tuple[int, str, str]:
    metadata = pod["metadata"]
    priority = -int(pod["spec"].get("priority") or 0)
    return priority, metadata.get("creationTimestamp", ""), metadata["uid"]


def _lacks_resources(pod: Manifest) -> bool:
    """Return whether another owner's pod waits for CPUs, memory or a pod slot.

    Its scheduler's message says so. Freed capacity would not help against any other obstacle.
    """
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(
        one["type"] == "PodScheduled"
        and one["status"] == "False"
        and ("Insufficient " in one.get("message", "") or "Too many pods" in one.get("message", ""))
        for one in conditions
    )


def _make_way(
    pod: Manifest,
    nodes: Mapping[str, Manifest],
    free: dict[str, Amount],
    ours: Mapping[tuple[str, str], Amount],
    floors: Mapping[str, float],
) -> None:
    """Set aside what another owner's pod needs, on the node where trainings lose the fewest CPUs.

    Set it aside also where the pod fits by now, but nothing if a training would have to end for it.
    """
    needed = requests(pod)
    usable = [
        name
        for name, node in nodes.items()
        if is_ready(node) and not is_cordoned(node) and may_be_on(pod["spec"], node)
    ]
    taken: dict[str, float] = {}
    for name in usable:
        mine = sum((one for (node, _), one in ours.items() if node == name), Amount())
        if (free[name] - mine).holds(needed):
            # Its scheduler is about to place it there. No training must grow into that meanwhile.
            free[name] -= needed
            return
        taken[name] = (mine + needed - free[name]).cpus
    fitting = [
        name
        for name in usable
        if free[name].holds(needed) and taken[name] <= _spare(name, ours, floors)
    ]
    if fitting:
        free[min(fitting, key=lambda name: (taken[name], name))] -= needed


def _spare(node: str, ours: Mapping[tuple[str, str], Amount], floors: Mapping[str, float]) -> float:
    """Return how many CPUs of a node trainings could give up and still go on.

    Each training is considered by itself.
    """
    spare = 0.0
    for (where, uid), one in ours.items():
        if where == node:
            elsewhere = sum(
                other.cpus for (place, job), other in ours.items() if job == uid and place != node
            )
            spare += max(0.0, one.cpus - max(0.0, floors.get(uid, 0.0) - elsewhere))
    return spare


def seated(
    found: Sequence[NodeCapacity],
    jobs: Iterable[tuple[JobSpec, Collection[str] | None]],
) -> tuple[tuple[NodeCapacity, ...], dict[str, str]]:
    """Return the capacities less what new coordinators take, and their nodes by the jobs' uids.

    Workers get whole CPUs, so coordinators preferably go where a fraction of a CPU is left.

    Args:
        found: Capacities of the nodes.
        jobs: Each job that lacks a coordinator, and the names of the nodes on which the coordinator
            may run; None for any.
    """
    rest = {room.node: room for room in found}
    seats: dict[str, str] = {}
    order = [_seat_rank(room) for room in found if room.is_open]
    heapify(order)
    for job, allowed in jobs:
        uid, needed = job.uid, job.coordinator
        passed = []
        while order and not (allowed is None or order[0][-1] in allowed):
            passed.append(heappop(order))
        if order:
            best = rest[order[0][-1]]
            left = None if best.memory is None else best.memory - needed.memory
            cpus = round(best.cpus - needed.cpus, 6)
            rest[best.node] = replace(best, cpus=cpus, memory=left, pods=best.pods - 1)
            seats[uid] = best.node
            heapreplace(order, _seat_rank(rest[best.node]))
        for each in passed:
            heappush(order, each)
    return tuple(rest.values()), seats


def _seat_rank(room: NodeCapacity) -> tuple[bool, bool, float, str]:
    """Return a sort key that is lowest for the node that suits a coordinator best."""
    part, usual = room.cpus % 1.0, CoordinatorSpec().cpus
    fits = room.cpus >= usual and room.pods > 0
    return not fits, part < usual, -room.cpus, room.node


def _leaving(node: Manifest) -> bool:
    taints = node["spec"].get("taints") or ()
    drained = any(one.get("effect") == "NoExecute" and not tolerates({}, one) for one in taints)
    return is_cordoned(node) or drained


def namespace_quotas(
    quotas: Iterable[Manifest],
    pods: Iterable[Manifest],
    own: OwnPods,
    lacking: Iterable[JobSpec] = (),
) -> dict[str, NamespaceQuota]:
    """Return the quota that each namespace with a ResourceQuota has left for trainings.

    Args:
        quotas: All ResourceQuotas.
        pods: All pods of the cluster.
        own: Pods whose requests are not subtracted.
        lacking: Jobs that lack a coordinator and get one.
    """
    found = list(quotas)
    limited = {quota["metadata"]["namespace"] for quota in found}
    asked: dict[str, Amount] = defaultdict(Amount)
    # Unlike workers, other pods may have limits above what they request.
    most: dict[str, Amount] = defaultdict(Amount)
    for pod in pods:
        namespace = pod["metadata"].get("namespace", "")
        if namespace in limited and not has_ended(pod) and pod not in own:
            asked[namespace] += requests(pod)
            most[namespace] += limits(pod)
    for job in lacking:
        needed = job.coordinator
        asked[job.namespace] += Amount(needed.cpus, needed.memory, 1)
        most[job.namespace] += Amount(needed.most_cpus, needed.most_memory)
    left: dict[str, NamespaceQuota] = {}
    for quota in found:
        namespace = quota["metadata"]["namespace"]
        hard = (quota.get("spec") or {}).get("hard") or {}
        used, limit = asked[namespace], most[namespace]
        known = left.get(namespace, NamespaceQuota())
        left[namespace] = NamespaceQuota(
            min(
                known.cpus,
                _limit(hard, _REQUESTED["cpus"]) - used.cpus,
                _limit(hard, ("limits.cpu",)) - limit.cpus,
            ),
            min(
                known.memory,
                _limit(hard, _REQUESTED["memory"]) - used.memory,
                _limit(hard, ("limits.memory",)) - limit.memory,
            ),
            min(known.pods, _limit(hard, ("pods", "count/pods")) - used.pods),
        )
    return left


def _limit(hard: Manifest, kinds: Iterable[str]) -> float:
    return min((quantities.number(hard[kind]) for kind in kinds if kind in hard), default=inf)
