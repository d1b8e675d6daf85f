# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A small operator: it keeps as many pods as a choir has singers. Run by kopf in a test."""

from __future__ import annotations

from typing import Any

import kopf
import kubernetes

GROUP = ("example.com", "v1", "choirs")
FINALIZER = "example.com/operator"


@kopf.on.startup()
def configure(settings: Any, **_: Any) -> None:
    settings.persistence.finalizer = FINALIZER
    settings.posting.enabled = True
    settings.networking.error_backoffs = [0.05] * 40
    settings.watching.reconnect_backoff = 0.02
    kubernetes.config.load_kube_config()


@kopf.on.create(*GROUP, backoff=0.1)
@kopf.on.update(*GROUP, backoff=0.1)
@kopf.on.resume(*GROUP, backoff=0.1)
def sing(body: Any, spec: Any, name: str, namespace: str, patch: Any, **_: Any) -> None:
    pods = kubernetes.client.CoreV1Api()
    wanted = {f"{name}-{number}" for number in range(spec["singers"]["max"])}
    found = pods.list_namespaced_pod(namespace, label_selector=f"choir={name}").items
    present = {pod.metadata.name for pod in found}
    for one in sorted(wanted - present):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": one, "labels": {"choir": name}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "containers": [
                    {"name": "main", "image": "shell:1", "command": ["sleep", "300"]},
                ],
            },
        }
        kopf.adopt(pod, owner=body)
        pods.create_namespaced_pod(namespace, pod)
        kopf.info(body, reason="Hired", message=one)
    for one in sorted(present - wanted):
        pods.delete_namespaced_pod(one, namespace)
    patch.status["singers"] = len(wanted)


@kopf.timer(*GROUP, interval=0.1, idle=0.05)
def listen(patch: Any, status: Any, **_: Any) -> None:
    patch.status["heard"] = str(int(status.get("heard", 0)) + 1)


@kopf.on.delete(*GROUP)
def part(**_: Any) -> None:
    pass
