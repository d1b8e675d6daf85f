# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Resize gate: delays the growth of workers into CPUs that others have yet to give up. Pure.

The plan counts those CPUs as free. A node would defer such a resize, and a resize that is deferred
for too long is given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import JobSpec, Manifest
from tf_malleable.cluster.observe.node_affinity import allocatable, has_ended, requests
from tf_malleable.cluster.reconcile.actions import Action, ResizePod

_CLOSE: Final = 0.005


def paced(
    doing: Mapping[str, Sequence[Action]],
    jobs: Mapping[str, JobSpec],
    nodes: Mapping[str, Manifest],
    pods: Iterable[Manifest],
) -> dict[str, list[Action]]:
    """Return the actions to carry out now: without resizes that exceed what a node has free.

    Args:
        doing: Actions for each job, by its uid.
        jobs: Jobs by uid.
        nodes: All nodes, by name.
        pods: All pods of the cluster.
    """
    more: dict[int, float] = {}
    free: dict[str, float] = {}
    for uid, actions in doing.items():
        for each in actions:
            if isinstance(each, ResizePod) and each.pod.node in nodes:
                more[id(each)] = _growth(each, jobs[uid])
                free[each.pod.node] = allocatable(nodes[each.pod.node]).cpus
    for pod in pods if any(growth > 0 for growth in more.values()) else ():
        annotations = pod["metadata"].get("annotations") or {}
        where = pod["spec"].get("nodeName") or annotations.get(resource_names.NODE)
        if where in free and not has_ended(pod):
            free[where] -= requests(pod).cpus
    resizes = [each for actions in doing.values() for each in actions if id(each) in more]
    held: set[int] = set()
    # Shrinking workers first: their CPUs are free once the growth of others is requested.
    for each in sorted(resizes, key=lambda each: more[id(each)] > 0):
        assert isinstance(each, ResizePod)
        growth = more[id(each)]
        if growth > 0 and growth > free[each.pod.node] + _CLOSE:
            held.add(id(each))
        else:
            free[each.pod.node] -= growth
    return {uid: [a for a in actions if id(a) not in held] for uid, actions in doing.items()}


def _growth(each: ResizePod, job: JobSpec) -> float:
    pod = each.pod
    return each.cpus + job.overhead_cpus - max(pod.cpus, pod.allocated or 0.0)
