# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Plans all trainings of a cluster: the policy says with how many CPUs, the rest says where.

Nodes are to the policy what NUMA nodes are on one host. More CPUs for the same workers cost no
pause, so that goes before more workers; and workers stay where they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple

from tf_malleable.cluster.planning.capacity import CapacityLedger
from tf_malleable.cluster.planning.cluster_job import ClusterJob, ServerAt, WorkerAt
from tf_malleable.cluster.planning.cluster_plan import ClusterPlan, JobPlan
from tf_malleable.cluster.planning.job_assignment import JobAssignment
from tf_malleable.cluster.planning.job_sizes import Sizes
from tf_malleable.cluster.planning.node_capacity import NamespaceQuota, NodeCapacity
from tf_malleable.cluster.planning.placement import pack
from tf_malleable.cluster.planning.policy_adapter import Answer, Question, ask
from tf_malleable.cluster.planning.reasons import Misfits, Why, why_it_has, why_it_waits
from tf_malleable.elastic.membership.worker_count import Patience, Sizing
from tf_malleable.policies.policy import Policy

# How often the policy is told what there was no room for.
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
    """Return which members each training is to have from now on.

    Deterministic, and without memory: what it must remember is in JobPlan.sizing. No node gets more
    than its room, no namespace more than its quota, no training members outside its bounds.

    Args:
        jobs: All trainings that have not ended, in order of arrival.
        rooms: All nodes that a member may be or is on. A node that is missing is gone.
        now: The time in seconds, on the same clock as the jobs' times.
        policy: Shares out the CPUs, as on one host.
        quotas: By namespace; one that is missing has none.
        patience: How long more or fewer workers must be wanted before that is carried out. Where
            others wait for what a training gives up, that is at once.

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
    question = Question(able, rooms, quotas, now, most, barred=barred)
    first = answer = ask(policy, question)
    situation = _Situation(rooms, quotas, now, patience)
    packed = situation.packed(able, answer)
    is_sized = False
    for _ in range(_ROUNDS):
        corrected = _corrected(question, packed.crews)
        is_same = corrected.barred == question.barred and corrected.by_hand == question.by_hand
        if corrected == question or (is_same and is_sized):
            break
        is_sized = is_sized or corrected.most != question.most
        # Others can have what some could not.
        question = corrected
        answer = ask(policy, question)
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
    """Return whether a training gets no members, whatever it has."""
    return job.suspended or (job.id in unfit and not job.placed)


class _Packed(NamedTuple):
    crews: dict[str, JobAssignment]
    ledger: CapacityLedger


class _Situation(NamedTuple):
    rooms: Sequence[NodeCapacity]
    quotas: Mapping[str, NamespaceQuota]
    now: float
    patience: Patience

    def packed(self, able: Mapping[str, Sizes], answer: Answer) -> _Packed:
        """Return all members, and what is left, if the policy says this."""
        ledger = CapacityLedger(self.rooms, self.quotas)
        crews = {}
        for name, sizes in able.items():
            sizing = sizes.job.sizing or Sizing(len(sizes.job.placed))
            crews[name] = JobAssignment(sizes, answer.cpus.get(name, 0), sizing)
        pack(list(crews.values()), ledger, self.now, self.patience)
        return _Packed(crews, ledger)


def _corrected(question: Question, crews: Mapping[str, JobAssignment]) -> Question:
    """Return what to ask the policy once it is known what there is room for."""
    barred = {name for name, crew in crews.items() if crew.granted and not crew.seats}
    if not barred <= question.barred:
        # Without these, nobody may have to make room.
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
    answer: Answer, crews: Iterable[JobAssignment], now: float, patience: Patience
) -> float | None:
    """Return when to plan again if nothing happens before."""
    times = [] if answer.review_at is None else [answer.review_at]
    for crew in crews:
        sizing = crew.sizing
        if crew.seats and sizing.other is not None:
            hold = patience.fewer if sizing.other < sizing.workers else patience.more
            times.append(max(sizing.since + hold, sizing.changed + patience.between))
    return max(min(times), now) if times else None
