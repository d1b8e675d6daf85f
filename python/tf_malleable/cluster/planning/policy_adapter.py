# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Policy adapter: asks a policy for each training's CPUs, with nodes as NUMA nodes of one machine.

The adapter expresses cluster constraints in the policy's terms: a training that found no node is
barred from CPUs, one that found fewer than granted has a lower maximum, and one that must not lose
its workers has its CPUs fixed by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil

from tf_malleable.cluster.planning.cluster_job import ClusterJob
from tf_malleable.cluster.planning.job_sizes import ROUNDING, Sizes, whole
from tf_malleable.cluster.planning.node_capacity import NamespaceQuota, NodeCapacity
from tf_malleable.model import NO_GRANT, Cpu, Grant, Job, Machine, Shape
from tf_malleable.model.quota import Quota, Quotas
from tf_malleable.policies.policy import Policy
from tf_malleable.scheduling.decision.decision import Candidate, decide


@dataclass(frozen=True)
class Question:
    """Question to the policy.

    Attributes:
        sizes: Sizes of each training that may have members, by id, in order of arrival.
        rooms: Capacities of all nodes.
        quotas: Quotas by namespace.
        now: Current time, in seconds.
        most: Maximum CPUs of some trainings, by id.
        by_hand: Fixed CPUs of some trainings, by id.
        barred: Ids of the trainings that get no CPUs.
    """

    sizes: Mapping[str, Sizes]
    rooms: Sequence[NodeCapacity]
    quotas: Mapping[str, NamespaceQuota]
    now: float
    most: Mapping[str, int] = field(default_factory=dict)
    by_hand: Mapping[str, int] = field(default_factory=dict)
    barred: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Answer:
    """Answer of the policy.

    Attributes:
        cpus: CPUs of each training that gets any, including those of servers, by id.
        review_at: Time to ask again if nothing happens before; None for no such time.
    """

    cpus: Mapping[str, int]
    review_at: float | None


def ask(policy: Policy, question: Question) -> Answer:
    """Return the policy's answer.

    Raises:
        InvalidAllocationError: The policy's allocation is invalid.
        Exception: Whatever the policy raises.
    """
    rooms = sorted((room for room in question.rooms if room.is_open), key=lambda room: room.node)
    sizes = tuple(whole(room.cpus) for room in rooms)
    machine = _machine(sizes)
    grants = _Grants({room.node: place for place, room in enumerate(rooms)}, sizes)
    users = {name: number for number, name in enumerate(sorted(_namespaces(question)))}
    candidates = []
    for name, each in question.sizes.items():
        most = question.most.get(name, each.greatest)
        job = _job(each, most, grants.of(each.job), users[each.job.namespace])
        by_hand = question.by_hand.get(name)
        candidates.append(Candidate(job, by_hand, name in question.barred))
    own = {users[name]: Quota(max_cores=_cores(quota)) for name, quota in question.quotas.items()}
    allocation = decide(policy, candidates, machine, question.now, Quotas(own=own))
    # Nothing is lent from node to node.
    cpus = {name: len(grant.own) for name, grant in allocation.grants.items() if grant}
    return Answer(cpus, allocation.review_at)


def _namespaces(question: Question) -> set[str]:
    return {each.job.namespace for each in question.sizes.values()} | question.quotas.keys()


def _cores(quota: NamespaceQuota) -> int | None:
    return whole(quota.cpus) if quota.cpus < 1e9 else None


def _job(sizes: Sizes, most: int, grant: Grant, user: int) -> Job:
    job = sizes.job
    least = sizes.fewest
    most = max(least, most)
    return Job(
        job.id,
        Shape(least, most, most),
        job.submitted,
        priority=job.priority,
        weight=job.weight,
        state=job.state,
        since=job.since,
        grant=grant,
        started=job.started,
        resized=job.resized,
        run_seconds=job.run_seconds,
        steps_done=job.steps_done,
        steps_total=job.steps_total,
        rates=sizes.rates,
        expected_seconds=job.expected_seconds,
        user=user,
    )


class _Grants:
    """Present grants: maps present members to CPUs of their nodes, each CPU at most once.

    Args:
        places: Index of the machine's NUMA node for each cluster node, by name.
        sizes: Number of CPUs of each NUMA node.
    """

    def __init__(self, places: Mapping[str, int], sizes: Sequence[int]) -> None:
        self._places = places
        self._next: list[int] = []
        total = 0
        for size in sizes:
            self._next.append(total)
            total += size
        self._ends = [*self._next[1:], total] if sizes else []
        # Members on nodes that they leave get CPU numbers beyond those of the machine.
        self._beyond = total

    def of(self, job: ClusterJob) -> Grant:
        """Return the grant that a training has at present."""
        if job.state != "running":
            return NO_GRANT
        cpus: list[int] = []
        for worker in job.placed:
            cpus += self._take(worker.node, worker.cpus)
        if job.placed_servers:
            count = ceil(len(job.placed_servers) * job.servers.cpus - ROUNDING)
            cpus += self._take(job.placed_servers[0].node, count)
        return Grant(frozenset(cpus))

    def _take(self, node: str, count: int) -> range:
        place = self._places.get(node)
        if place is not None and self._next[place] + count <= self._ends[place]:
            start = self._next[place]
            self._next[place] += count
        else:
            start = self._beyond
            self._beyond += count
        return range(start, start + count)


@lru_cache(maxsize=4)
def _machine(sizes: tuple[int, ...]) -> Machine:
    """Return the machine whose NUMA nodes have these CPUs; most decisions use the same one."""
    cpus: list[Cpu] = []
    for node, size in enumerate(sizes):
        cpus += [Cpu(number, number, node) for number in range(len(cpus), len(cpus) + size)]
    return Machine(tuple(cpus))
