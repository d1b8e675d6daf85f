# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A job's dependents beside its pods: token Secret, Service, disruption budget. Pure."""

from __future__ import annotations

import base64
import hashlib
import hmac

from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import JobSpec
from tf_malleable.cluster.kube.objects import pod_template
from tf_malleable.cluster.kube.objects.pod_template import Draft


def token(key: bytes, job: JobSpec) -> str:
    """Return a job's token, as hexadecimal digits.

    The token is derived from a key that only the operator has. The operator therefore need not
    read Secrets, and the token stays the same for a later operator, or if the answer to a creation
    is lost.
    """
    return hmac.new(key, job.uid.encode(), hashlib.sha256).hexdigest()


def secret(job: JobSpec, said: str) -> Draft:
    """Return the Secret with a job's token."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": pod_template.metadata(job, resource_names.secret_name(job.name, job.uid)),
        "type": "Opaque",
        "immutable": True,
        "data": {resource_names.TOKEN_KEY: base64.b64encode(said.encode()).decode()},
    }


def service(job: JobSpec, address: str = "") -> Draft:
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
        "metadata": pod_template.metadata(job, resource_names.service_name(job.name)),
        "spec": {
            "selector": {
                resource_names.JOB: job.name,
                resource_names.ROLE: resource_names.COORDINATOR,
            },
            "ports": [port],
            **({"clusterIP": address} if address else {}),
        },
    }


def budget(job: JobSpec) -> Draft:
    """Return the disruption budget that protects the last holder of the training's state."""
    labels = {resource_names.JOB: job.name, resource_names.HOLDER: "true"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": pod_template.metadata(job, resource_names.budget_name(job.name)),
        "spec": {"minAvailable": 1, "selector": {"matchLabels": labels}},
    }
