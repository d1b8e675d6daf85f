# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pods of a job: workers from its template, servers, and the coordinator. Pure."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Final

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import JobSpec, containers
from tf_malleable.cluster.kube.objects import pod_template
from tf_malleable.cluster.kube.objects.pod_template import Draft

_LEAST_CPUS: Final = 0.01
COORDINATOR_CPUS: Final = 0.05
COORDINATOR_MEMORY: Final = 96.0 * 2**20
_COORDINATOR: Final = {
    "requests": {"cpu": "50m", "memory": "96Mi"},
    "limits": {"cpu": "1", "memory": "256Mi"},
}
_SERVER_MEMORY: Final = {"requests": {"memory": "256Mi"}, "limits": {"memory": "4Gi"}}
# Fields of the template's spec that let other pods run where the workers may.
_SHARED: Final = (
    "hostAliases", "imagePullSecrets", "nodeSelector", "priorityClassName", "runtimeClassName",
    "schedulerName", "serviceAccountName", "tolerations",
)  # fmt: skip
_NOBODY: Final = 65532


@dataclass(frozen=True)
class NodePlace:
    """Node that a pod is planned for.

    Attributes:
        node: Name of the node.
        hostname: Value of the node's label kubernetes.io/hostname.
    """

    node: str
    hostname: str


def worker(job: JobSpec, member: int, place: NodePlace, cpus: float, coordinator: str) -> Draft:
    """Return a worker's pod.

    Args:
        job: The job.
        member: Number of the worker.
        place: Node of the worker.
        cpus: CPUs of the pod, including those of its other containers.
        coordinator: Address of the coordinator's Service.
    """
    template = job.template
    # Unchanged parts are shared with the template: there may be thousands of workers.
    spec = dict(template["spec"])
    first, *others = containers(template)
    own = max(_LEAST_CPUS, cpus - job.overhead_cpus)
    made = pod_template.with_variables(first, pod_template.worker_variables(job, coordinator))
    made = pod_template.with_cpus(pod_template.hardened(made), own)
    spec["containers"] = [made, *(pod_template.hardened(each) for each in others)]
    spec["restartPolicy"] = "Never"
    spec["automountServiceAccountToken"] = False
    spec["affinity"] = pod_template.on_node(spec.get("affinity"), place.hostname)
    seccomp = {"seccompProfile": {"type": "RuntimeDefault"}}
    spec["securityContext"] = {**seccomp, **(spec.get("securityContext") or {})}
    base = template.get("metadata")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod_template.pod_metadata(job, resource_names.WORKER, member, place.node, base),
        "spec": spec,
    }


def server(job: JobSpec, member: int, place: NodePlace, cpus: float, coordinator: str) -> Draft:
    """Return a server's pod; the arguments are those of worker()."""
    words = ["tfm", "elastic", "server", "--coordinator", f"{coordinator}:{resource_names.PORT}"]
    words += ["--host", pod_template.own_address(), "--patience", "600"]
    container = {"resources": copy.deepcopy(_SERVER_MEMORY)}
    made = _own_pod(
        job,
        resource_names.SERVER,
        member,
        words,
        pod_template.with_cpus(container, cpus),
        place.node,
    )
    affinity = job.template["spec"].get("affinity")
    made["spec"]["affinity"] = pod_template.on_node(affinity, place.hostname)
    return made


def coordinator(job: JobSpec, member: int, place: NodePlace, *, is_first: bool) -> Draft:
    """Return a coordinator's pod.

    Args:
        job: The job.
        member: Number of the coordinator.
        place: Node of the coordinator; the plan has set aside the coordinator's requests there.
        is_first: True if no worker runs yet, so that there is none to wait for.
    """
    words = [
        "tfm",
        "elastic",
        "coordinator",
        "--listen",
        f"{pod_template.own_address()}:{resource_names.PORT}",
    ]
    words += ["--shards", str(job.shards), "--fresh" if is_first else "--resume"]
    container = {
        "resources": copy.deepcopy(_COORDINATOR),
        "ports": [{"name": "elastic", "containerPort": resource_names.PORT}],
    }
    made = _own_pod(job, resource_names.COORDINATOR, member, words, container, place.node)
    affinity = job.template["spec"].get("affinity")
    made["spec"]["affinity"] = pod_template.on_node(affinity, place.hostname)
    return made


def _own_pod(
    job: JobSpec, role: str, member: int, words: list[str], container: Draft, node: str
) -> Draft:
    """Return a pod that runs tfm, from the image of the workers, which contains it."""
    first = containers(job.template)[0]
    base = job.template["spec"]
    more = {name: first[name] for name in ("imagePullPolicy",) if name in first}
    made = {
        **container,
        **more,
        "name": role,
        "image": first.get("image", ""),
        "command": words,
        "env": pod_template.secret_variables(job),
    }
    context = {
        "runAsNonRoot": True,
        "runAsUser": _NOBODY,
        "seccompProfile": {"type": "RuntimeDefault"},
        **(base.get("securityContext") or {}),
    }
    spec = {
        **{name: copy.deepcopy(base[name]) for name in _SHARED if name in base},
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 10,
        "securityContext": context,
        "containers": [pod_template.hardened(made)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod_template.pod_metadata(job, role, member, node),
        "spec": spec,
    }
