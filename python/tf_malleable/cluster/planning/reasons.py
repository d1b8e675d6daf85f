# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reasons why a training has its members or none, for people and for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tf_malleable.cluster.planning.capacity import CapacityLedger, NamespaceQuota, NodeCapacity
from tf_malleable.cluster.planning.cluster_job import ClusterJob, Reason
from tf_malleable.cluster.planning.job_assignment import JobAssignment
from tf_malleable.cluster.planning.job_sizes import Sizes, whole

Why = tuple[Reason, str]
# Stands in for infinite memory in the floor divisions, in bytes.
_MUCH: Final = 2.0**62


class Misfits:
    """Finds trainings that cannot run now, whatever the others have.

    Args:
        rooms: Capacities of all nodes.
        quotas: Quotas by namespace.
    """

    def __init__(self, rooms: Sequence[NodeCapacity], quotas: Mapping[str, NamespaceQuota]) -> None:
        self._open = {room.node: room for room in rooms if room.is_open}
        self._quotas = quotas
        self._found: dict[object, bool] = {}

    def why(self, sizes: Sizes) -> Why | None:
        """Return why a training cannot run; None if it can."""
        job = sizes.job
        if job.suspended:
            return "Suspended", "is suspended"
        if sizes.fewest > sizes.admitted:
            return (
                "WaitingForAdmission",
                f"needs {_cpus(sizes.fewest)} at least, and {sizes.admitted:g} are admitted",
            )
        quota = self._quotas.get(job.namespace)
        if quota is not None and _exceeds(sizes, quota):
            return "WaitingForQuota", f"needs more than namespace {job.namespace} may have"
        if self._fits(job, job.allowed, job.workers.memory):
            return None
        least = job.workers.cpus_least
        if job.allowed is not None and self._fits(job, None, job.workers.memory):
            return "WaitingForAllowedNodes", "does not fit into the nodes where it may be"
        what = "CPUs" if not self._fits(job, None, 0.0) else "memory"
        count = job.workers.least
        return (
            "TooLarge",
            f"no nodes have room for {_workers(count)} of {_cpus(least)} each, for lack of {what}",
        )

    def _fits(self, job: ClusterJob, allowed: frozenset[str] | None, memory: float) -> bool:
        """Return whether the minimum of workers fits into an otherwise empty cluster."""
        bounds = job.workers
        key = (bounds.least, bounds.cpus_least, memory, allowed)
        if key not in self._found:
            count = bounds.least
            for room in self._open.values():
                if allowed is None or room.node in allowed:
                    count -= _slots(room, bounds.cpus_least, memory)
                    if count <= 0:
                        break
            self._found[key] = count <= 0
        return self._found[key]


def _exceeds(sizes: Sizes, quota: NamespaceQuota) -> bool:
    job = sizes.job
    workers, servers = job.workers, job.servers
    memory = workers.least * workers.memory + servers.least * servers.memory
    return (
        sizes.fewest > quota.cpus
        or memory > quota.memory
        or workers.least + servers.least > quota.pods
    )


def _slots(room: NodeCapacity, cpus: int, memory: float) -> int:
    count = min(whole(room.cpus) // cpus, room.pods)
    if memory and room.memory is not None:
        count = min(count, int(room.memory // memory))
    return max(0, count)


def why_it_waits(crew: JobAssignment, ledger: CapacityLedger, policy_gave: int) -> Why:
    """Return why a training has no members.

    Args:
        crew: The training.
        ledger: Capacity that is free after all other trainings have theirs.
        policy_gave: CPUs that the policy gave it before nodes were selected.
    """
    job = crew.job
    least, memory = job.workers.cpus_least, job.workers.memory
    needs = f"{_workers(job.workers.least)} of {_cpus(least)} each"
    if not policy_gave:
        if job.placed:
            return "Paused", "lets others go first"
        return "WaitingForCpus", f"waits for {_cpus(crew.sizes.fewest)}, which others have"
    purse = ledger.purse(job.namespace)
    if purse is not None and purse.slots(memory) < job.workers.least + job.servers.least:
        return "WaitingForQuota", f"waits for quota of namespace {job.namespace}"
    spaces = [
        space
        for space in ledger.taking()
        if (job.allowed is None or space.node in job.allowed) and space.node not in job.avoided
    ]
    count = job.workers.least
    if sum(space.slots(least, memory, is_hard=True) for space in spaces) >= count:
        return "WaitingForCpus", f"waits for {needs} until its turn"
    if job.allowed is not None:
        return "WaitingForAllowedNodes", f"waits for {needs} on the nodes where it may be"
    if sum(whole(space.cpus) // least for space in spaces) < count:
        largest = max((whole(space.cpus) for space in spaces), default=0)
        free = f"no node can have more than {_cpus(largest)} free"
        return "WaitingForCpus", f"waits for {needs}: {free}"
    roomy = [space for space in spaces if space.cpus >= least]
    if memory and sum(min(space.memory, _MUCH) // memory for space in roomy) < count:
        return "WaitingForMemory", f"waits for memory for {needs}"
    return "WaitingForPods", f"waits for {needs}: nodes with room have too many pods"


def why_it_has(crew: JobAssignment) -> Why:
    """Return why a training has the members that it has."""
    if crew.is_stuck:
        if any(not seat.space.takes for seat in crew.seats):
            return "Draining", "stays on nodes that it is to leave: there is no room elsewhere"
        return "WaitingForCpus", "keeps its last workers: there is no room for as many as it needs"
    if any(not seat.is_due for seat in crew.seats):
        return "Settling", f"is to have {_workers(len(crew.seats))} if that lasts"
    cpus = sum(seat.cpus for seat in crew.seats) + crew.server_cpus
    if cpus >= crew.sizes.greatest:
        return "Granted", "has all the CPUs that it can use"
    if cpus >= crew.sizes.admitted:
        why = "has all the CPUs that are admitted"
        asked = crew.sizes.requested
        return "Admitted", why if asked is None else f"{why}, and asks for {_cpus(asked)}"
    return "Shared", f"has {cpus} of {_cpus(crew.sizes.greatest)} that it can use"


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


def _cpus(count: int) -> str:
    return "1 CPU" if count == 1 else f"{count} CPUs"
