# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Common parts of a job's objects: metadata, environment variables and containers. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from tf_malleable.cluster import quantities, resource_names
from tf_malleable.cluster.job_spec import JobSpec, Manifest
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
    node = found.setdefault("nodeAffinity", {})
    # The terms are alternatives, so each of them needs the expression.
    terms = (node.get(required) or {}).get("nodeSelectorTerms") or [{}]
    for term in terms:
        term["matchExpressions"] = [*(term.get("matchExpressions") or ()), here]
    node[required] = {"nodeSelectorTerms": terms}
    return found
