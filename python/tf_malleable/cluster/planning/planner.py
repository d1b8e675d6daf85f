# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Planner for all trainings of a cluster: the policy decides CPUs, the rest decides nodes.

More CPUs for the same workers cost no pause, so they come before more workers; and workers stay on
their nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import ceil
from types import MappingProxyType
from typing import Final, NamedTuple

from tf_malleable.cluster.planning.capacity import CapacityLedger, NamespaceQuota, NodeCapacity
from tf_malleable.cluster.planning.cluster_job import (
    ClusterJob,
    ClusterPlan,
    JobPlan,
    ServerAt,
    WorkerAt,
)
from tf_malleable.cluster.planning.job_assignment import JobAssignment
from tf_malleable.cluster.planning.job_sizes import ROUNDING, Sizes, whole
from tf_malleable.cluster.planning.placement import pack
from tf_malleable.cluster.planning.reasons import Misfits, Why, why_it_has, why_it_waits
from tf_malleable.elastic.membership.worker_count import Patience, Sizing
from tf_malleable.model import NO_GRANT, Cpu, Grant, Job, Machine, Shape
from tf_malleable.model.quota import Quota, Quotas
from tf_malleable.policies.policy import Policy
from tf_malleable.scheduling.decision.decision import Candidate, decide

# Number of times that the policy is asked again with the members that did not fit.
_ROUNDS: Final = 3
_NO_QUOTAS: Final[Mapping[str, NamespaceQuota]] = MappingProxyType({})


def plan(
    jobs: Sequence[ClusterJob],
    rooms: Sequence[NodeCapacity],
    now: float,
    policy: Policy,
    *,
    quotas: Mapping[str, NamespaceQuota] = _NO_QUOTAS,
    patience: Patience = Patience(),  # noqa: B008
) -> ClusterPlan:
    """Return the members that each training is to have from now on.

    The function is deterministic and stateless: what it must remember is in JobPlan.sizing. No node
    gets more than its capacity, no namespace more than its quota, and no training members outside
    its bounds.

    Args:
        jobs: All trainings that have not ended, in order of arrival.
        rooms: Capacities of all nodes that a member may be or is on. A missing node is gone.
        now: Current time in seconds, on the same clock as the jobs' times.
        policy: Policy that shares out the CPUs, as on one host.
        quotas: Quotas by namespace; a missing namespace has none.
        patience: Times for which more or fewer workers must be wanted before the change is made.
            Where others wait for what a training gives up, the change is made at once.

    Raises:
        InvalidAllocationError: The policy's allocation is invalid.
        Exception: Whatever the policy raises.
    """
    sizes = {job.id: Sizes(job) for job in jobs}
    misfits = Misfits(rooms, quotas)
    unfit = {name: why for name, each in sizes.items() if (why := misfits.why(each)) is not None}
    able = {name: each for name, each in sizes.items() if not _is_out(each.job, unfit)}
    barred = frozenset(able.keys() & unfit.keys())
    most = {name: each.cap for name, each in able.items()}
    question = _Question(able, rooms, quotas, now, most, barred=barred)
    first = answer = _ask(policy, question)
    situation = _Situation(rooms, quotas, now, patience)
    packed = situation.packed(able, answer)
    is_sized = False
    for _ in range(_ROUNDS):
        corrected = _corrected(question, packed.crews)
        is_same = corrected.barred == question.barred and corrected.by_hand == question.by_hand
        if corrected == question or (is_same and is_sized):
            break
        is_sized = is_sized or corrected.most != question.most
        # What some trainings could not use, others may get.
        question = corrected
        answer = _ask(policy, question)
        packed = situation.packed(able, answer)
    plans = {}
    for job in jobs:
        crew = packed.crews.get(job.id)
        if crew is not None and (crew.seats or job.id not in unfit):
            plans[job.id] = _job_plan(crew, packed.ledger, first.cpus.get(job.id, 0))
        else:
            plans[job.id] = JobPlan((), (), *unfit[job.id])
        plans[job.id] = replace(plans[job.id], requested=sizes[job.id].requested)
    return ClusterPlan(plans, _review_at(answer, packed.crews.values(), now, patience))


def _is_out(job: ClusterJob, unfit: Mapping[str, Why]) -> bool:
    """Return whether a training gets no members, whatever the policy says."""
    return job.suspended or (job.id in unfit and not job.placed)


class _Packed(NamedTuple):
    crews: dict[str, JobAssignment]
    ledger: CapacityLedger


class _Situation(NamedTuple):
    rooms: Sequence[NodeCapacity]
    quotas: Mapping[str, NamespaceQuota]
    now: float
    patience: Patience

    def packed(self, able: Mapping[str, Sizes], answer: _Answer) -> _Packed:
        """Return all members, and the capacity that is left, for an answer of the policy."""
        ledger = CapacityLedger(self.rooms, self.quotas)
        crews = {}
        for name, sizes in able.items():
            sizing = sizes.job.sizing or Sizing(len(sizes.job.placed))
            crews[name] = JobAssignment(sizes, answer.cpus.get(name, 0), sizing)
        pack(list(crews.values()), ledger, self.now, self.patience)
        return _Packed(crews, ledger)


def _corrected(question: _Question, crews: Mapping[str, JobAssignment]) -> _Question:
    """Return the next question to the policy, corrected by what fits on the nodes."""
    barred = {name for name, crew in crews.items() if crew.granted and not crew.seats}
    if not barred <= question.barred:
        # Without these trainings, perhaps no other one has to make room.
        return replace(question, barred=question.barred | barred)
    most, by_hand = dict(question.most), dict(question.by_hand)
    for name, crew in crews.items():
        if crew.is_stuck:
            by_hand[name] = crew.got
        elif crew.got < crew.granted:
            most[name] = crew.got
    return replace(question, most=most, by_hand=by_hand)


def _job_plan(crew: JobAssignment, ledger: CapacityLedger, policy_gave: int) -> JobPlan:
    if not crew.seats:
        return JobPlan((), (), *why_it_waits(crew, ledger, policy_gave))
    seats = sorted(
        crew.due,
        key=lambda seat: (seat.pod is None, seat.pod or "", seat.space.place),
    )
    workers = [WorkerAt(seat.space.node, seat.cpus, seat.pod, seat.cpus_limit) for seat in seats]
    servers = [ServerAt(space.node, pod) for space, pod in crew.servers]
    reason, why = why_it_has(crew)
    return JobPlan(tuple(workers), tuple(servers), reason, why, crew.sizing)


def _review_at(
    answer: _Answer, crews: Iterable[JobAssignment], now: float, patience: Patience
) -> float | None:
    """Return the time to plan again if nothing happens before; None for no such time."""
    times = [] if answer.review_at is None else [answer.review_at]
    for crew in crews:
        sizing = crew.sizing
        if crew.seats and sizing.other is not None:
            hold = patience.fewer if sizing.other < sizing.workers else patience.more
            times.append(max(sizing.since + hold, sizing.changed + patience.between))
    return max(min(times), now) if times else None


@dataclass(frozen=True)
class _Question:
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
class _Answer:
    """Answer of the policy.

    Attributes:
        cpus: CPUs of each training that gets any, including those of servers, by id.
        review_at: Time to ask again if nothing happens before; None for no such time.
    """

    cpus: Mapping[str, int]
    review_at: float | None


def _ask(policy: Policy, question: _Question) -> _Answer:
    """Return the policy's answer, with the nodes as NUMA nodes of one machine.

    Constraints of the cluster are expressed in the policy's terms: a training that found no node
    is barred from CPUs, one that found fewer than granted has a lower maximum, and one that must
    not lose its workers has its CPUs fixed by hand.

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
    return _Answer(cpus, allocation.review_at)


def _namespaces(question: _Question) -> set[str]:
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
