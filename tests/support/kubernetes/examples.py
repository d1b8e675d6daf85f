# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Objects to try a cluster with, and requests by plain HTTP."""

from __future__ import annotations

import http.client
import json
from typing import Any

from tests.support.deadline import DEADLINE
from tests.support.kubernetes.server import Server

Object = dict[str, Any]
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: choirs.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: choirs, kind: Choir, shortNames: [ch]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale: {specReplicasPath: .spec.singers.max, statusReplicasPath: .status.singers}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [singers]
            properties:
              hall: {type: string, x-kubernetes-validations: [
                {rule: self == oldSelf, message: hall is immutable}]}
              suspend: {type: boolean, default: false}
              singers:
                type: object
                properties:
                  min: {type: integer, minimum: 1, default: 1}
                  max: {type: integer, minimum: 1}
                x-kubernetes-validations:
                - {rule: "!has(self.max) || self.min <= self.max",
                   message: min must not be above max, fieldPath: .min}
              template: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties: {singers: {type: integer}, heard: {type: string}}
"""


def choir(name: str = "one", **spec: Any) -> Object:
    """Return an object of the kind that CRD defines."""
    return {
        "apiVersion": "example.com/v1",
        "kind": "Choir",
        "metadata": {"name": name},
        "spec": {"singers": {"max": 4}, **spec},
    }


def config(name: str = "one", **metadata: Any) -> Object:
    """Return a ConfigMap."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"a": "1"},
    }


def pod(
    name: str = "one",
    script: str = "exec sleep 300",
    *,
    cpus: str = "500m",
    image: str = "shell:1",
    env: list[Object] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """Return a pod that runs a shell script, and is not restarted unless its spec says so.

    The script is not the first process of its PID namespace, so that SIGTERM ends it.
    """
    container = {
        "name": "main",
        "image": image,
        "command": ["sh", "-c", script],
        "env": env or [],
        "resources": {"limits": {"cpu": cpus, "memory": "64Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "restartPolicy": "Never",
            "shareProcessNamespace": True,
            "terminationGracePeriodSeconds": 30,
            "containers": [container],
            **spec,
        },
    }


def priority(name: str, value: int, **more: Any) -> Object:
    """Return a PriorityClass."""
    about = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return {**about, "metadata": {"name": name}, "value": value, **more}


def cpus(amount: str) -> list[Object]:
    """Return a patch for the resize subresource, to so many CPUs."""
    at = "/spec/containers/0/resources"
    return [
        {"op": "replace", "path": f"{at}/{kind}/cpu", "value": amount}
        for kind in ("requests", "limits")
    ]


def ask(
    server: Server,
    method: str,
    path: str,
    body: Any = None,
    *,
    token: str | None = None,
    content_type: str = "application/json",
) -> tuple[int, Any, dict[str, str]]:
    """Return status, decoded body and headers of an answer."""
    host, port = server.url.removeprefix("http://").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=DEADLINE)
    headers = {"Content-Type": content_type}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        found = dict(answer.getheaders())
        kind = found.get("Content-Type", "")
        if "json" in kind and "watch=" not in path:
            return answer.status, json.loads(text), found
        return answer.status, text, found
    finally:
        connection.close()
