# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The difference between what a job has and what it is to have, as actions. Pure.

A worker with the state goes only while another one that stays has it, too: before the last one
goes, those that come in its place must have taken part. Where the plan gives a job nothing at all,
nobody stays.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import JobSpec, containers
from tf_malleable.cluster.kube.objects import pods
from tf_malleable.cluster.kube.objects.pods import NodePlace
from tf_malleable.cluster.observe.job_state import ENDED, ObservedState
from tf_malleable.cluster.observe.pod_status import PodStatus
from tf_malleable.cluster.planning.cluster_plan import JobPlan
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


def steps(
    job: JobSpec,
    found: Sequence[PodStatus],
    taken: Collection[tuple[str, int]],
    judgement: ObservedState,
    plan: JobPlan,
    seat: str,
    address: str,
    hostnames: Mapping[str, str],
    now: float,
    timings: Timings,
) -> list[Action]:
    """Return what to do about a job that is to go on, or has ended.

    Args:
        job: The job.
        found: All its pods.
        taken: Roles and numbers that pods of this name have, be they of an earlier job.
        judgement: What they amount to.
        plan: What it is to have.
        seat: Name of the node for its coordinator, if it lacks one and there is a node.
        address: Of its Service; empty if that is not known yet.
        hostnames: Of the nodes, by their names.
        now: In seconds since the epoch.
        timings: How long to wait for what.
    """
    made: list[Action] = []
    if judgement.phase in ENDED:
        made += _cleared(found)
        if resource_names.FINALIZER in job.finalizers:
            made.append(SetFinalizers(_without(job.finalizers)))
        return made
    if resource_names.FINALIZER not in job.finalizers:
        return [SetFinalizers((*job.finalizers, resource_names.FINALIZER))]
    made += [MarkPod(pod, _failed(number, judgement)) for pod, number in judgement.crashes.fresh]
    made += [DeletePod(pod, why, _said(pod, why)) for pod, why in judgement.dropped]
    is_wanted = bool(plan.workers) or bool(judgement.workers)
    if is_wanted and not address:
        return [*made, EnsureDependents()]
    maker = _Maker(job, taken, address, hostnames)
    if is_wanted and now >= judgement.helpers_at:
        made += maker.coordinator(judgement, seat)
    elif (
        not is_wanted
        and not judgement.is_ending  # It is still to say how far they have come.
        and not any(pod.role == resource_names.WORKER and pod.is_leaving for pod in found)
    ):
        made += [DeletePod(pod, "NoWorkers") for pod in judgement.coordinators]
    if judgement.is_ending:
        made += _late(judgement, now, timings, found)
        return made
    made += maker.workers(judgement, plan, now)
    made += maker.servers(judgement, plan, now)
    going = {each.pod.uid for each in made if isinstance(each, DeletePod)}
    made += _labels((pod for pod in found if pod.uid not in going), judgement)
    return made


def closing(
    job: JobSpec,
    found: Sequence[PodStatus],
    ready: Collection[str],
    now: float,
    timings: Timings,
) -> list[Action]:
    """Return what to do about a job that was deleted: its workers go before the others.

    So they hear of the end. What is on lost nodes, or takes too long, is left to the cluster.

    Args:
        job: The job.
        found: All its pods.
        ready: Names of the nodes that run pods.
        now: In seconds since the epoch.
        timings: How long to wait for what.
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


def _cleared(found: Iterable[PodStatus]) -> Iterator[Action]:
    """Stop what still runs of a job that has ended; what has ended stays, for its logs."""
    for pod in found:
        is_own = pod.role in (resource_names.COORDINATOR, resource_names.SERVER)
        if not pod.is_leaving and (pod.end is None or is_own):
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
    """Delete workers that have not come to the end: those that never ran at once."""
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
    """Makes the pods that a job lacks."""

    def __init__(
        self,
        job: JobSpec,
        taken: Collection[tuple[str, int]],
        address: str,
        hostnames: Mapping[str, str],
    ) -> None:
        self._job, self._address, self._hostnames = job, address, hostnames
        self._taken = set(taken)

    def _next(self, role: str) -> int:
        """Return a number that no pod has: also none that will not go."""
        number = 0
        while (role, number) in self._taken:
            number += 1
        self._taken.add((role, number))
        return number

    def coordinator(self, judgement: ObservedState, seat: str) -> Iterator[Action]:
        if not judgement.coordinators and seat in self._hostnames:
            yield EnsureDependents()  # Something may have been deleted since.
            place = NodePlace(seat, self._hostnames[seat])
            number = self._next(resource_names.COORDINATOR)
            # Then there is nobody to wait for.
            is_first = not any(pod.is_running for pod in judgement.workers)
            made = pods.coordinator(self._job, number, place, is_first=is_first)
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
        for pod in _leaving(judgement, wanted, is_to_end=not plan.workers):
            message = f"{pod.name} leaves {pod.node}: {plan.why}"
            yield DeletePod(pod, "WorkerLeaves", message)
        if now < judgement.start_at or not _has_place(judgement):
            return
        for each in plan.workers:
            if each.pod is None and each.node in self._hostnames:
                place = NodePlace(each.node, self._hostnames[each.node])
                number = self._next(resource_names.WORKER)
                made = pods.worker(self._job, number, place, each.cpus, self._address)
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
                made = pods.server(self._job, number, place, cpus, self._address)
                yield CreatePod(made, "ServerComes", f"a server comes to {each.node}")


def _has_place(judgement: ObservedState) -> bool:
    """Return whether the coordinator has a node: there it takes room that cannot be planned for."""
    return any(pod.node for pod in judgement.coordinators)


def _leaving(
    judgement: ObservedState, wanted: Collection[str | None], *, is_to_end: bool
) -> list[PodStatus]:
    """Return which workers go now: not the last with the state, if others are to come."""
    going = [pod for pod in judgement.workers if pod.name not in wanted]
    if is_to_end:
        return going
    holders = judgement.holders
    if not holders:  # Nothing is known of them: whoever runs may have the state.
        holders = frozenset(pod.uid for pod in judgement.workers if pod.is_running)
    leaving = [pod for pod in going if pod.uid in holders]
    if leaving and not any(p.uid in holders and p.name in wanted for p in judgement.workers):
        going.remove(leaving[0])
    return going
