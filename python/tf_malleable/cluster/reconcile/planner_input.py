# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Planner input: a job as the planner needs it. Pure, except for updates of JobCache."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from math import ceil, floor
from typing import Final

from tf_malleable.cluster import quantities, resource_names
from tf_malleable.cluster.job_spec import JobSpec, Manifest
from tf_malleable.cluster.observe.job_cache import JobCache, Size
from tf_malleable.cluster.observe.job_state import ObservedState, started_at
from tf_malleable.cluster.observe.node_affinity import may_be_on
from tf_malleable.cluster.observe.pod_status import PodStatus
from tf_malleable.cluster.observe.training_progress import TrainingProgress
from tf_malleable.cluster.planning.cluster_job import (
    ClusterJob,
    ServerAt,
    ServerBounds,
    WorkerAt,
    WorkerBounds,
)
from tf_malleable.cluster.settings import Timings
from tf_malleable.model import JobState

_RESCALE_SECONDS: Final = 1.0
_SERVER_MEMORY: Final = 256.0 * 2**20
_CHOOSING: Final = ("tolerations", "nodeSelector", "affinity")


def worker_bounds(job: JobSpec) -> WorkerBounds:
    """Return the bounds of a job's workers in whole CPUs, as the planner assigns them."""
    workers = job.workers
    least, most = ceil(workers.least_cpus), floor(workers.most_cpus)
    return WorkerBounds(workers.least, workers.most, least, most, job.memory)


def size(workers: Iterable[PodStatus], taking_part: frozenset[str] | None = None) -> Size:
    """Return the size of workers together; if `taking_part` is given, of the workers in it.

    Args:
        workers: Workers.
        taking_part: Uids of the workers that count; None for all.
    """
    found = [one for one in workers if taking_part is None or one.uid in taking_part]
    cpus = sum(one.cpus if one.actual is None else one.actual for one in found)
    return round(cpus), len(found), len({one.node for one in found})


class UsableNodes:
    """Nodes on which pods may run, for one state of the nodes; results are cached."""

    def __init__(self, nodes: Mapping[str, Manifest]) -> None:
        """Take all nodes, by name."""
        self._nodes = {name: _without_passing(node) for name, node in nodes.items()}
        self._known: dict[str, frozenset[str] | None] = {}

    def allowed(self, spec: Manifest) -> frozenset[str] | None:
        """Return the names of the nodes that a pod's spec allows; None for all of them."""
        # Most jobs have the same constraints.
        key = json.dumps([spec.get(name) for name in _CHOOSING])
        if key not in self._known:
            found = frozenset(name for name, node in self._nodes.items() if may_be_on(spec, node))
            self._known[key] = None if len(found) == len(self._nodes) else found
        return self._known[key]


def cluster_job(
    job: JobSpec,
    judgement: ObservedState,
    progress: TrainingProgress | None,
    memory: JobCache,
    places: UsableNodes,
    now: float,
    timings: Timings,
) -> ClusterJob:
    """Return a job for the planner.

    Args:
        job: The job.
        judgement: Observed state of the job.
        progress: Progress that the coordinator reports; None if there is no recent report.
        memory: Remembered state of the job; updated.
        places: Nodes on which pods may run.
        now: Current time, in seconds since the epoch.
        timings: Timeouts and intervals.
    """
    _note_limits(judgement, memory, now, timings)
    bounds, servers = worker_bounds(job), job.servers
    placed = tuple(_worker_at(pod, bounds, memory) for pod in judgement.workers)
    began = started_at(job)
    state: JobState = "running" if placed else "paused" if began is not None else "waiting"
    cpus = sum(each.cpus for each in placed)
    if memory.cpus is None or memory.cpus[0] != cpus:
        memory.cpus = cpus, now
    return ClusterJob(
        id=job.uid,
        submitted=job.created,
        workers=bounds,
        servers=ServerBounds(servers.least, servers.most, servers.cpus, _SERVER_MEMORY),
        shards=job.shards,
        namespace=job.namespace,
        priority=job.priority,
        suspended=job.suspend,
        keeps_state=job.checkpoint is not None,
        allowed=places.allowed(job.template["spec"]),
        avoided=frozenset(memory.avoided),
        admitted_cpus=_admitted(job),
        asks_for_more=_is_elastic(job),
        state=state,
        since=began or job.created,
        started=began,
        resized=memory.cpus[1] if placed else None,
        run_seconds=0.0 if began is None else max(0.0, now - began),
        steps_done=None if progress is None else float(progress.steps_done),
        steps_total=None if progress is None else progress.steps_total,
        rates=memory.speed.measured(),
        placed=placed,
        placed_servers=tuple(ServerAt(pod.node, pod.name) for pod in judgement.servers),
        rescale_seconds=_rescale_seconds(progress),
        sizing=memory.sizing,
    )


def _without_passing(node: Manifest) -> Manifest:
    """Return a node without taints that change with its state; NodeCapacity reflects those."""
    kept = [
        taint
        for taint in node["spec"].get("taints") or ()
        if taint.get("effect") == "NoSchedule"
        and not taint["key"].startswith("node.kubernetes.io/")
    ]
    return {**node, "spec": {**node["spec"], "taints": kept}}


def _worker_at(pod: PodStatus, bounds: WorkerBounds, memory: JobCache) -> WorkerAt:
    cpus = max(1, round(pod.cpus))
    limit = memory.limits.get(pod.uid)
    if limit is None:
        return WorkerAt(pod.node, cpus, pod.name)
    return WorkerAt(pod.node, cpus, pod.name, max(bounds.cpus_least, limit[0]))


def _note_limits(judgement: ObservedState, memory: JobCache, now: float, timings: Timings) -> None:
    """Remember the resizes that are given up, and the nodes where pods do not start."""
    for pod in judgement.workers:
        is_late = pod.resize == "Deferred" and now >= pod.resize_since + timings.deferred
        if (pod.resize == "Infeasible" or is_late) and pod.actual is not None:
            memory.limits[pod.uid] = max(1, floor(pod.actual)), now + timings.avoided
    for pod, why in judgement.dropped:
        never_ran = pod.end is not None and pod.end.code is None
        if pod.node and (why == "Unschedulable" or never_ran):
            memory.avoided[pod.node] = now + timings.avoided


def _admitted(job: JobSpec) -> float | None:
    """Return how many CPUs were admitted; None if the job needs no admission.

    Without a valid number, the job's minimum is admitted: no more has been counted.
    """
    try:
        return max(0.0, quantities.number(job.annotations[resource_names.ADMITTED]))
    except ValueError:
        return _fewest(job)
    except KeyError:
        is_queued = bool(job.labels.get(resource_names.QUEUE)) or _is_elastic(job)
        return _fewest(job) if is_queued else None


def _fewest(job: JobSpec) -> float:
    servers = job.servers
    return job.workers.least * worker_bounds(job).cpus_least + ceil(servers.least * servers.cpus)


def _is_elastic(job: JobSpec) -> bool:
    return job.annotations.get(resource_names.ELASTIC) == "true"


def _rescale_seconds(progress: TrainingProgress | None) -> float:
    """Return the longest of the last pauses, in seconds."""
    rescales = () if progress is None else progress.rescales[-5:]
    pauses = [each.pause_seconds for each in rescales if each.pause_seconds is not None]
    return max(pauses, default=_RESCALE_SECONDS)
