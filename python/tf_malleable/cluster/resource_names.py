# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Names in the API: resource kinds, labels, annotations, and the objects of a MalleableJob."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

GROUP: Final = "tf-malleable.dev"
API_VERSION: Final = f"{GROUP}/v1alpha1"
JOB_KIND: Final = "MalleableJob"
FINALIZER: Final = f"{GROUP}/generation"
MANAGER: Final = f"{GROUP}/operator"
"""Value of spec.managedBy for this operator; a missing value means the same."""

JOB: Final = f"{GROUP}/job"
ROLE: Final = f"{GROUP}/role"
MEMBER: Final = f"{GROUP}/member"
HOLDER: Final = f"{GROUP}/holds-state"
"""Label of workers that hold the training's state, for the disruption budget."""
NODE: Final = f"{GROUP}/node"
"""Annotation of pods: the node that they are intended for."""
FAILURE: Final = f"{GROUP}/failure"
"""Annotation of failed pods: the number of failures in a row, and the step."""

ADMITTED: Final = f"{GROUP}/admitted-cpus"
"""Annotation of jobs: the number of CPUs that all pods together may request."""
QUEUE: Final = "kueue.x-k8s.io/queue-name"
"""Label of jobs that Kueue admits."""
ELASTIC: Final = "kueue.x-k8s.io/elastic-job"
"""Annotation of jobs that may ask Kueue for more while they run."""

WORKER: Final = "worker"
SERVER: Final = "server"
COORDINATOR: Final = "coordinator"
PORT: Final = 7070
"""Port of the coordinator and of its Service."""
TOKEN_KEY: Final = "token"


@dataclass(frozen=True)
class ResourceKind:
    """A resource kind of the API, and its path.

    Attributes:
        prefix: Prefix of the paths, such as ``"/api/v1"``.
        plural: Name of the kind in paths.
        api_version: The ``apiVersion`` of its objects.
        kind: The ``kind`` of its objects.
    """

    prefix: str
    plural: str
    api_version: str
    kind: str

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """Return the path of all objects, of a namespace's, of one object, or of a subresource."""
        words = [self.prefix]
        words += ["namespaces", namespace] if namespace else []
        words.append(self.plural)
        words += [each for each in (name, part) if each]
        return "/".join(words)


JOBS: Final = ResourceKind(f"/apis/{API_VERSION}", "malleablejobs", API_VERSION, JOB_KIND)
PODS: Final = ResourceKind("/api/v1", "pods", "v1", "Pod")
NODES: Final = ResourceKind("/api/v1", "nodes", "v1", "Node")
QUOTAS: Final = ResourceKind("/api/v1", "resourcequotas", "v1", "ResourceQuota")
SECRETS: Final = ResourceKind("/api/v1", "secrets", "v1", "Secret")
SERVICES: Final = ResourceKind("/api/v1", "services", "v1", "Service")
EVENTS: Final = ResourceKind("/api/v1", "events", "v1", "Event")
BUDGETS: Final = ResourceKind(
    "/apis/policy/v1", "poddisruptionbudgets", "policy/v1", "PodDisruptionBudget"
)
LEASES: Final = ResourceKind(
    "/apis/coordination.k8s.io/v1", "leases", "coordination.k8s.io/v1", "Lease"
)


def secret_name(job: str, uid: str) -> str:
    """Return the name of the Secret with a job's token.

    The name contains part of the job's uid because the operator may not read the Secrets of jobs:
    it could not tell this job's Secret from that of an earlier job of the same name.
    """
    return f"{job}-elastic-{uid[:8]}"


def service_name(job: str) -> str:
    """Return the name of the Service in front of a job's coordinator."""
    return f"{job}-coordinator"


def budget_name(job: str) -> str:
    """Return the name of the disruption budget that protects a job's last holder of the state."""
    return f"{job}-state"


def pod_name(job: str, role: str, member: int) -> str:
    """Return the name of a job's pod."""
    return f"{job}-{role}-{member}"
