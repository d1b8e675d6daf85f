# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Required actions: the difference between a job's actual and planned members. Pure.

A worker that holds the state is deleted only while another one that stays holds it, too: before
the last one goes, its replacements must have taken part. If the plan gives a job no members at
all, none stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import JobSpec, containers
from tf_malleable.cluster.kube import objects
from tf_malleable.cluster.kube.objects import NodePlace
from tf_malleable.cluster.observe.job_state import ENDED, ObservedState
from tf_malleable.cluster.observe.pod_status import PodStatus
from tf_malleable.cluster.planning.cluster_job import JobPlan
from tf_malleable.cluster.reconcile.actions import (
    Action,
    CreatePod,
    DeletePod,
    EnsureDependents,
    MarkPod,
    ResizePod,
    SetFinalizers,
)
from tf_malleable.cluster.settings import Timings

_CLOSE: Final = 0.005


@dataclass(frozen=True)
class PodSites:
    """Where a job's next pods can be, and which numbers they can have.

    Attributes:
        taken: Roles and numbers in use by pods of jobs of this name, including earlier jobs.
        seat: Name of the node for a new coordinator; empty if none is needed or no node is found.
        address: Address of the coordinator's Service; empty if it is not known yet.
        hostnames: Hostname labels of the nodes, by the nodes' names.
    """

    taken: Collection[tuple[str, int]]
    seat: str
    address: str
    hostnames: Mapping[str, str]


def steps(
    job: JobSpec,
    found: Sequence[PodStatus],
    sites: PodSites,
    judgement: ObservedState,
    plan: JobPlan,
    now: float,
    timings: Timings,
) -> list[Action]:
    """Return the actions for a job that goes on or has ended.

    Args:
        job: The job.
        found: All pods of the job.
        sites: Where the job's next pods can be.
        judgement: Observed state of the job.
        plan: Plan for the job.
        now: Current time, in seconds since the epoch.
        timings: Timeouts and intervals.
    """
    made: list[Action] = []
    if judgement.phase in ENDED:
        made += _cleared(found, now, timings)
        if resource_names.FINALIZER in job.finalizers:
            made.append(SetFinalizers(_without(job.finalizers)))
        return made
    if resource_names.FINALIZER not in job.finalizers:
        return [SetFinalizers((*job.finalizers, resource_names.FINALIZER))]
    made += [MarkPod(pod, _failed(number, judgement)) for pod, number in judgement.crashes.fresh]
    made += [DeletePod(pod, why, _said(pod, why)) for pod, why in judgement.dropped]
    is_wanted = bool(plan.workers) or bool(judgement.workers)
    if is_wanted and not sites.address:
        return [*made, EnsureDependents()]
    maker = _Maker(job, sites)
    if is_wanted and now >= judgement.helpers_at:
        made += maker.coordinator(judgement)
    elif not is_wanted and _has_no_more_to_report(judgement, found):
        made += [DeletePod(pod, "NoWorkers") for pod in judgement.coordinators]
    if judgement.is_ending:
        made += _late(judgement, now, timings, found)
        return made
    made += maker.workers(judgement, plan, now)
    made += maker.servers(judgement, plan, now)
    going = {each.pod.uid for each in made if isinstance(each, DeletePod)}
    made += _labels((pod for pod in found if pod.uid not in going), judgement)
    return made


def _has_no_more_to_report(judgement: ObservedState, found: Iterable[PodStatus]) -> bool:
    """Return whether the coordinator of a job without workers has no progress left to report."""
    is_worker_leaving = any(p.role == resource_names.WORKER and p.is_leaving for p in found)
    return not judgement.is_ending and not is_worker_leaving


def closing(
    job: JobSpec,
    found: Sequence[PodStatus],
    ready: Collection[str],
    now: float,
    timings: Timings,
) -> list[Action]:
    """Return the actions for a deleted job: its workers are deleted before the other pods.

    The workers can thus still learn of the end. Pods on lost nodes, or those that take too long,
    are left to the cluster.

    Args:
        job: The job.
        found: All pods of the job.
        ready: Names of the nodes that run pods.
        now: Current time, in seconds since the epoch.
        timings: Timeouts and intervals.
    """
    if resource_names.FINALIZER not in job.finalizers:
        return []
    live = [pod for pod in found if pod.end is None and (not pod.node or pod.node in ready)]
    workers = [pod for pod in live if pod.role == resource_names.WORKER]
    if workers and now < (job.deleted or now) + timings.closing:
        return [DeletePod(pod, "JobDeleted") for pod in workers if not pod.is_leaving]
    made: list[Action] = [DeletePod(pod, "JobDeleted") for pod in live if not pod.is_leaving]
    return [*made, SetFinalizers(_without(job.finalizers))]


def _without(finalizers: Iterable[str]) -> tuple[str, ...]:
    return tuple(one for one in finalizers if one != resource_names.FINALIZER)


def _cleared(found: Iterable[PodStatus], now: float, timings: Timings) -> Iterator[Action]:
    """Delete the running pods of an ended job; workers that have ended stay, for their logs.

    Other containers of such a worker have some time to end, too.
    """
    for pod in found:
        is_own = pod.role in (resource_names.COORDINATOR, resource_names.SERVER)
        is_late = pod.end is not None and pod.is_held and now >= pod.end.at + timings.closing
        if not pod.is_leaving and (pod.end is None or is_own or is_late):
            yield DeletePod(pod, "JobEnded")


def _failed(number: int, judgement: ObservedState) -> dict[str, object]:
    return {"annotations": {resource_names.FAILURE: f"{number}@{judgement.crashes.step}"}}


def _said(pod: PodStatus, why: str) -> str:
    if why in ("Forgiven", "Forgotten"):
        return f"{pod.name}, now deleted, {pod.end}"
    if why == "NodeLost":
        return f"{pod.name} is lost with node {pod.node}"
    if why == "Unschedulable" and pod.unscheduled:
        return f"{pod.name} finds no place at {pod.node}: {pod.unscheduled[0]}"
    return f"{pod.name} has ended: {why}"


def _late(
    judgement: ObservedState, now: float, timings: Timings, found: Sequence[PodStatus]
) -> Iterator[Action]:
    """Delete workers that have not reached the end: late ones, and at once those not running."""
    ends = [pod.end.at for pod in found if pod.end is not None and pod.end.kind == "trained"]
    for pod in judgement.workers:
        if not pod.is_running or (ends and now >= min(ends) + timings.ending):
            yield DeletePod(pod, "TrainingEnded", f"{pod.name} is late: the training has ended")


def _labels(found: Iterable[PodStatus], judgement: ObservedState) -> Iterator[Action]:
    for pod in found:
        if pod.role != resource_names.WORKER or pod.end is not None:
            continue
        if (pod.uid in judgement.holders) != pod.is_holder and not pod.is_leaving:
            value = None if pod.is_holder else "true"
            yield MarkPod(pod, {"labels": {resource_names.HOLDER: value}})


class _Maker:
    """Builds the actions that give a job the planned coordinator, workers and servers."""

    def __init__(self, job: JobSpec, sites: PodSites) -> None:
        self._job, self._seat, self._address = job, sites.seat, sites.address
        self._hostnames = sites.hostnames
        self._taken = set(sites.taken)

    def _next(self, role: str) -> int:
        """Return a number that no pod of this role has, not even one that does not terminate."""
        number = 0
        while (role, number) in self._taken:
            number += 1
        self._taken.add((role, number))
        return number

    def coordinator(self, judgement: ObservedState) -> Iterator[Action]:
        seat = self._seat
        if not judgement.coordinators and seat in self._hostnames:
            yield EnsureDependents()  # A dependent may have been deleted meanwhile.
            place = NodePlace(seat, self._hostnames[seat])
            number = self._next(resource_names.COORDINATOR)
            # Without running workers, the coordinator has none to wait for.
            is_first = not any(pod.is_running for pod in judgement.workers)
            made = objects.coordinator_pod(self._job, number, place, is_first=is_first)
            message = "a training begins" if is_first else "the one before is gone"
            yield CreatePod(made, "CoordinatorCreated", message)
        for pod in judgement.coordinators[:-1]:
            yield DeletePod(pod, "CoordinatorReplaced")

    def workers(self, judgement: ObservedState, plan: JobPlan, now: float) -> Iterator[Action]:
        wanted = {each.pod: each for each in plan.workers if each.pod is not None}
        container = containers(self._job.template)[0]["name"]
        for pod in judgement.workers:
            each = wanted.get(pod.name)
            if each is not None and abs(each.cpus - pod.cpus) > _CLOSE:
                own = max(0.01, each.cpus - self._job.overhead_cpus)
                yield ResizePod(pod, container, own)
        large = {pod.name for pod in judgement.workers if _cannot_shrink(pod)}
        for pod in _leaving(judgement, wanted.keys() - large, is_to_end=not plan.workers):
            message = f"{pod.name} leaves {pod.node}: {plan.why}"
            yield DeletePod(pod, "WorkerLeaves", message)
        if now < judgement.start_at or not _has_place(judgement):
            return
        for each in plan.workers:
            if each.pod is None and each.node in self._hostnames:
                place = NodePlace(each.node, self._hostnames[each.node])
                number = self._next(resource_names.WORKER)
                made = objects.worker_pod(self._job, number, place, each.cpus, self._address)
                name = made["metadata"]["name"]
                message = f"{name} comes to {each.node} with {each.cpus} CPUs: {plan.why}"
                yield CreatePod(made, "WorkerComes", message)

    def servers(self, judgement: ObservedState, plan: JobPlan, now: float) -> Iterator[Action]:
        wanted = {each.pod for each in plan.servers}
        for pod in judgement.servers:
            if pod.name not in wanted:
                yield DeletePod(pod, "ServerLeaves", f"{pod.name} leaves {pod.node}")
        if now < judgement.helpers_at or not _has_place(judgement):
            return
        for each in plan.servers:
            if each.pod is None and each.node in self._hostnames:
                place = NodePlace(each.node, self._hostnames[each.node])
                number, cpus = self._next(resource_names.SERVER), self._job.servers.cpus
                made = objects.server_pod(self._job, number, place, cpus, self._address)
                yield CreatePod(made, "ServerComes", f"a server comes to {each.node}")


def _has_place(judgement: ObservedState) -> bool:
    """Return whether the coordinator has a node: only then is its capacity accounted for."""
    return any(pod.node for pod in judgement.coordinators)


def _cannot_shrink(pod: PodStatus) -> bool:
    """Return whether a pod keeps CPUs of which its node does not relieve it.

    As with a static CPU manager; another pod in its place can have fewer.
    """
    return pod.resize == "Infeasible" and pod.actual is not None and pod.cpus < pod.actual - _CLOSE


def _leaving(
    judgement: ObservedState, wanted: Collection[str], *, is_to_end: bool
) -> list[PodStatus]:
    """Return the workers that leave now: without the last holder of the state, unless all go."""
    going = [pod for pod in judgement.workers if pod.name not in wanted]
    if is_to_end:
        return going
    holders = judgement.holders
    if not holders:  # The holders are unknown: any running worker may hold the state.
        holders = frozenset(pod.uid for pod in judgement.workers if pod.is_running)
    leaving = [pod for pod in going if pod.uid in holders]
    if leaving and not any(p.uid in holders and p.name in wanted for p in judgement.workers):
        going.remove(leaving[0])
    return going
