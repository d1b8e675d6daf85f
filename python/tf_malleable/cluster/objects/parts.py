# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What objects of a job have in common: their metadata, and the container that trains. Pure."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, Final

from tf_malleable.cluster import names, quantities
from tf_malleable.cluster.spec import JobSpec, Manifest
from tf_malleable.elastic.errors import LEFT
from tf_malleable.elastic.plan import Address
from tf_malleable.elastic.settings import SETTINGS, MeshSettings

Draft = dict[str, Any]
"""An object that is being made."""

SECRET: Final = "TF_MALLEABLE_ELASTIC_SECRET"
CHECKPOINT: Final = "TF_MALLEABLE_CHECKPOINT"
"""The variable that tells a script where to save, for others that begin when none is left."""
CHECKPOINT_SECONDS: Final = "TF_MALLEABLE_CHECKPOINT_SECONDS"
_POD_IP: Final = "TF_MALLEABLE_POD_IP"
_POD_UID: Final = "TF_MALLEABLE_POD_UID"
# A coordinator may be lost together with its node, which takes a cluster most of a minute to
# notice. Members that train on alone after less would be several trainings.
_ALONE_SECONDS: Final = 90.0
# A script's pod may be scheduled before the coordinator's.
_PATIENCE_SECONDS: Final = 300.0


def metadata(job: JobSpec, name: str, labels: Mapping[str, str] | None = None) -> Draft:
    """Return the metadata of an object that goes with its job."""
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": names.JOB_KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
    }
    return {
        "name": name,
        "namespace": job.namespace,
        "labels": {**(labels or {}), names.JOB: job.name},
        "ownerReferences": [owner],
    }


def pod_metadata(
    job: JobSpec, role: str, member: int, node: str = "", base: Manifest | None = None
) -> Draft:
    """Return the metadata of a job's pod.

    Args:
        job: The job.
        role: Of the pod.
        member: Its number.
        node: Which it is for.
        base: With labels and annotations that it has, too.
    """
    given = base or {}
    labels = {**(given.get("labels") or {}), names.ROLE: role, names.MEMBER: str(member)}
    made = metadata(job, names.pod_name(job.name, role, member), labels)
    annotations = dict(given.get("annotations") or {})
    if node:
        annotations[names.NODE] = node
    if annotations:
        made["annotations"] = annotations
    return made


def secret_variables(job: JobSpec) -> list[Draft]:
    """Return the variables of any process of a training: its secret, and where it is."""
    key = {"name": names.secret_name(job.name, job.uid), "key": names.TOKEN_KEY}
    return [
        {"name": SECRET, "valueFrom": {"secretKeyRef": key}},
        {"name": _POD_IP, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]


def own_address() -> str:
    """Return what a kubelet replaces by the address of the container's pod."""
    return f"$({_POD_IP})"


def worker_variables(job: JobSpec, coordinator: str, cpus: float) -> list[Draft]:
    """Return the variables that make a script an elastic worker.

    Args:
        job: The job.
        coordinator: Address of its Service.
        cpus: With how many CPUs it begins.
    """
    settings = MeshSettings(
        Address(coordinator, names.PORT),
        b"",
        host=own_address(),
        cpus=cpus,
        # Unlike a name, it is never that of a pod before.
        id=f"$({_POD_UID})",
        patience_seconds=_PATIENCE_SECONDS,
        alone_seconds=_ALONE_SECONDS,
        shards=job.shards,
        # It is no crash, and not the training's end.
        left_code=LEFT,
    )
    said = json.loads(settings.encode()) | {"secret": f"$({SECRET})"}
    saving = []
    if job.checkpoint is not None:
        saving = [
            {"name": CHECKPOINT, "value": job.checkpoint.path},
            {"name": CHECKPOINT_SECONDS, "value": f"{job.checkpoint.every_seconds:g}"},
        ]
    return [
        *saving,
        *secret_variables(job),
        {"name": _POD_UID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": SETTINGS, "value": json.dumps(said)},
    ]


def with_variables(container: Manifest, variables: list[Draft]) -> Draft:
    """Return a container with these variables, whatever it says of them."""
    own = {each["name"] for each in variables}
    kept = [each for each in container.get("env") or () if each["name"] not in own]
    return {**copy.deepcopy(dict(container)), "env": [*copy.deepcopy(kept), *variables]}


def with_cpus(container: Manifest, cpus: float) -> Draft:
    """Return a container that has so many CPUs, which can change while it runs."""
    resources = copy.deepcopy(dict(container.get("resources") or {}))
    for kind in ("requests", "limits"):
        resources[kind] = {**(resources.get(kind) or {}), "cpu": quantities.cores(cpus)}
    others = [each for each in container.get("resizePolicy") or () if each["resourceName"] != "cpu"]
    policy = [*others, {"resourceName": "cpu", "restartPolicy": "NotRequired"}]
    return {**container, "resources": resources, "resizePolicy": policy}


def hardened(container: Manifest) -> Draft:
    """Return a container that gains no rights, unless it says otherwise."""
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        **(container.get("securityContext") or {}),
    }
    return {**container, "securityContext": context}


def on_node(affinity: Manifest | None, hostname: str) -> Draft:
    """Return an affinity that allows one node only, and what else it says."""
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [hostname]}
    found = copy.deepcopy(dict(affinity or {}))
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    node = found.setdefault("nodeAffinity", {})
    # One of the terms must hold, so each of them gets it.
    terms = (node.get(required) or {}).get("nodeSelectorTerms") or [{}]
    for term in terms:
        term["matchExpressions"] = [*(term.get("matchExpressions") or ()), here]
    node[required] = {"nodeSelectorTerms": terms}
    return found
