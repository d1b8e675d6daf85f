# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Kubernetes objects that the operator creates for a job: pods and what they depend on. Pure."""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tf_malleable.cluster import quantities, resource_names
from tf_malleable.cluster.job_spec import JobSpec, Manifest, containers
from tf_malleable.elastic import variables
from tf_malleable.elastic.settings import SECRET

Draft = dict[str, Any]
"""An API object under construction."""

_POD_NAME: Final = "TF_MALLEABLE_POD_NAME"
_POD_UID: Final = "TF_MALLEABLE_POD_UID"


def metadata(job: JobSpec, name: str, labels: Mapping[str, str] | None = None) -> Draft:
    """Return the metadata of an object that its job owns."""
    owner = {
        "apiVersion": resource_names.API_VERSION,
        "kind": resource_names.JOB_KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
    }
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": {**(labels or {}), resource_names.JOB: job.name},
        "ownerReferences": [owner],
    }


def pod_metadata(
    job: JobSpec, role: str, member: int, node: str = "", base: Manifest | None = None
) -> Draft:
    """Return the metadata of a job's pod.

    Args:
        job: The job.
        role: Role of the pod.
        member: Number of the member.
        node: Name of the node that the pod is planned for; empty for none.
        base: Metadata with additional labels and annotations; None for none.
    """
    given = base or {}
    labels = {
        **(given.get("labels") or {}),
        resource_names.ROLE: role,
        resource_names.MEMBER: str(member),
    }
    made = metadata(job, resource_names.pod_name(job.name, role, member), labels)
    annotations = dict(given.get("annotations") or {})
    if node:
        annotations[resource_names.NODE] = node
    if annotations:
        made["annotations"] = annotations
    return made


def secret_variables(job: JobSpec) -> list[Draft]:
    """Return the variables that each process of a training needs: the secret and its pod's IP."""
    key = {"name": resource_names.secret_name(job.name, job.uid), "key": resource_names.TOKEN_KEY}
    return [
        {"name": SECRET, "valueFrom": {"secretKeyRef": key}},
        _field(variables.HOST, "status.podIP"),
    ]


def own_address() -> str:
    """Return the placeholder that the kubelet replaces with the IP of the container's pod."""
    return f"$({variables.HOST})"


def worker_variables(job: JobSpec, coordinator: str) -> list[Draft]:
    """Return the variables that make a script an elastic worker, if tfm run starts it.

    Args:
        job: The job.
        coordinator: Address of the coordinator's Service.
    """
    made = [
        *secret_variables(job),
        _field(_POD_NAME, "metadata.name"),
        _field(_POD_UID, "metadata.uid"),
        # Unlike a name, a uid is never reused by a later pod.
        {"name": variables.PLACE, "value": f"$({_POD_NAME})/$({_POD_UID})"},
        {"name": variables.COORDINATOR, "value": f"{coordinator}:{resource_names.PORT}"},
    ]
    if job.checkpoint is not None:
        every = f"{job.checkpoint.every_seconds:g}"
        made.append({"name": variables.CHECKPOINT, "value": job.checkpoint.path})
        made.append({"name": variables.CHECKPOINT_EVERY, "value": every})
    return made


def _field(name: str, path: str) -> Draft:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def with_variables(container: Manifest, more: list[Draft]) -> Draft:
    """Return a container with these variables, which replace its own of the same names."""
    own = {each["name"] for each in more}
    kept = [each for each in container.get("env") or () if each["name"] not in own]
    return {**container, "env": [*kept, *more]}


def with_cpus(container: Manifest, cpus: float) -> Draft:
    """Return a container with this number of CPUs, resizable in place."""
    resources = dict(container.get("resources") or {})
    for kind in ("requests", "limits"):
        resources[kind] = {**(resources.get(kind) or {}), "cpu": quantities.cores(cpus)}
    others = [each for each in container.get("resizePolicy") or () if each["resourceName"] != "cpu"]
    policy = [*others, {"resourceName": "cpu", "restartPolicy": "NotRequired"}]
    return {**container, "resources": resources, "resizePolicy": policy}


def hardened(container: Manifest) -> Draft:
    """Return a container with restricted privileges and a fallback termination message.

    Settings of the container itself take precedence. The termination message keeps the last lines
    of the log, so that the API shows the cause of a crash even without the log.
    """
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        **(container.get("securityContext") or {}),
    }
    words = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    return {**words, **container, "securityContext": context}


def on_node(affinity: Manifest | None, hostname: str) -> Draft:
    """Return an affinity restricted to one node, with its other terms kept."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [hostname]}
    found = copy.deepcopy(dict(affinity or {}))
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    node = found["nodeAffinity"] = dict(found.get("nodeAffinity") or {})
    # The terms are alternatives, so each of them needs the expression.
    terms = (node.get(required) or {}).get("nodeSelectorTerms") or [{}]
    for term in terms:
        term["matchExpressions"] = [*(term.get("matchExpressions") or ()), here]
    node[required] = {"nodeSelectorTerms": terms}
    return found


_LEAST_CPUS: Final = 0.01
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


def worker_pod(job: JobSpec, member: int, place: NodePlace, cpus: float, coordinator: str) -> Draft:
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
    made = with_variables(first, worker_variables(job, coordinator))
    made = with_cpus(hardened(made), own)
    spec["containers"] = [made, *(hardened(each) for each in others)]
    spec["restartPolicy"] = "Never"
    spec["automountServiceAccountToken"] = False
    if _has_one_container(spec) and not spec.get("hostPID"):
        spec.setdefault("shareProcessNamespace", True)
    spec["affinity"] = on_node(spec.get("affinity"), place.hostname)
    seccomp = {"seccompProfile": {"type": "RuntimeDefault"}}
    spec["securityContext"] = {**seccomp, **(spec.get("securityContext") or {})}
    base = template.get("metadata")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod_metadata(job, resource_names.WORKER, member, place.node, base),
        "spec": spec,
    }


def _has_one_container(spec: Manifest) -> bool:
    """Return whether no two containers of a pod run at once.

    Such a pod can share a PID namespace, whose first process is then the pod's own. A worker that
    were the first itself would not get the SIGTERM that it has no handler for yet, and keep its
    CPUs for the whole grace period. Containers that run at once would see each other's processes.
    """
    starters = spec.get("initContainers") or ()
    is_lasting = any(one.get("restartPolicy") == "Always" for one in starters)
    return len(spec["containers"]) == 1 and not is_lasting


def server_pod(job: JobSpec, member: int, place: NodePlace, cpus: float, coordinator: str) -> Draft:
    """Return a server's pod; the arguments are those of worker_pod()."""
    words = ["tfm", "elastic", "server", "--coordinator", f"{coordinator}:{resource_names.PORT}"]
    words += ["--host", own_address(), "--patience", "600"]
    container = {"resources": copy.deepcopy(_SERVER_MEMORY)}
    made = _own_pod(
        job,
        resource_names.SERVER,
        member,
        words,
        with_cpus(container, cpus),
        place.node,
    )
    affinity = job.template["spec"].get("affinity")
    made["spec"]["affinity"] = on_node(affinity, place.hostname)
    return made


def coordinator_pod(job: JobSpec, member: int, place: NodePlace, *, is_first: bool) -> Draft:
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
        f"{own_address()}:{resource_names.PORT}",
    ]
    words += ["--shards", str(job.shards), "--fresh" if is_first else "--resume"]
    asked = job.coordinator
    amounts = {"requests": (asked.cpus, asked.memory)}
    amounts["limits"] = asked.most_cpus, asked.most_memory
    container = {
        "resources": {
            kind: {"cpu": quantities.cores(cpus), "memory": quantities.whole(memory)}
            for kind, (cpus, memory) in amounts.items()
        },
        "ports": [{"name": "elastic", "containerPort": resource_names.PORT}],
    }
    made = _own_pod(job, resource_names.COORDINATOR, member, words, container, place.node)
    affinity = job.template["spec"].get("affinity")
    made["spec"]["affinity"] = on_node(affinity, place.hostname)
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
        "env": secret_variables(job),
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
        "shareProcessNamespace": True,
        "terminationGracePeriodSeconds": 10,
        "securityContext": context,
        "containers": [hardened(made)],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": pod_metadata(job, role, member, node),
        "spec": spec,
    }


def token(key: bytes, job: JobSpec) -> str:
    """Return a job's token, as hexadecimal digits.

    The token is derived from a key that only the operator has. The operator therefore need not
    read Secrets, and the token stays the same for a later operator, or if the answer to a creation
    is lost.
    """
    return hmac.new(key, job.uid.encode(), hashlib.sha256).hexdigest()


def token_secret(job: JobSpec, said: str) -> Draft:
    """Return the Secret with a job's token."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata(job, resource_names.secret_name(job.name, job.uid)),
        "type": "Opaque",
        "immutable": True,
        "data": {resource_names.TOKEN_KEY: base64.b64encode(said.encode()).decode()},
    }


def coordinator_service(job: JobSpec, address: str = "") -> Draft:
    """Return the Service in front of a job's coordinator; its address outlives the pods.

    Args:
        job: The job.
        address: Cluster IP of the Service; empty for any.
    """
    port = {
        "name": "elastic",
        "port": resource_names.PORT,
        "protocol": "TCP",
        "targetPort": resource_names.PORT,
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, resource_names.service_name(job.name)),
        "spec": {
            "selector": {
                resource_names.JOB: job.name,
                resource_names.ROLE: resource_names.COORDINATOR,
            },
            "ports": [port],
            **({"clusterIP": address} if address else {}),
        },
    }


def disruption_budget(job: JobSpec) -> Draft:
    """Return the disruption budget that protects the last holder of the training's state."""
    labels = {resource_names.JOB: job.name, resource_names.HOLDER: "true"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": metadata(job, resource_names.budget_name(job.name)),
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    }
