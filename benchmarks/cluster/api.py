# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The few calls of an API server that are needed, without threads and without waiting."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from benchmarks.common.command_line import BenchmarkError
from tf_malleable.cluster import resource_names
from tf_malleable.cluster.kube.kubeconfig import find
from tf_malleable.cluster.resource_names import ResourceKind

Object = dict[str, Any]
NAMESPACE: Final = "default"
_MERGE: Final = "application/merge-patch+json"
_SECONDS: Final = 10.0


class Api:
    """Calls an API server as who a kubeconfig says."""

    def __init__(self, kubeconfig: Path) -> None:
        self._server = find(kubeconfig)

    def create(self, kind: ResourceKind, item: Object) -> Object:
        """Create an object."""
        return self._call("POST", kind.path(NAMESPACE), item)

    def get(self, kind: ResourceKind, name: str, namespace: str = NAMESPACE) -> Object:
        """Return an object."""
        return self._call("GET", kind.path(namespace, name))

    def patch(self, kind: ResourceKind, name: str, change: Object) -> Object:
        """Change an object."""
        return self._call("PATCH", kind.path(NAMESPACE, name), change, _MERGE)

    def delete(self, kind: ResourceKind, name: str) -> None:
        """Delete an object."""
        self._call("DELETE", kind.path(NAMESPACE, name))

    def list(self, kind: ResourceKind) -> list[Object]:
        """Return all objects of a kind."""
        items: list[Object] = self._call("GET", kind.path(""))["items"]
        return items

    def pods(self, job: str, role: str) -> list[Object]:
        """Return the pods of a job that have this role."""
        wanted = {resource_names.JOB: job, resource_names.ROLE: role}
        found = self.list(resource_names.PODS)
        return [p for p in found if wanted.items() <= p["metadata"].get("labels", {}).items()]

    def _call(
        self, verb: str, path: str, body: Object | None = None, how: str = "application/json"
    ) -> Object:
        request = urllib.request.Request(
            self._server.url + path,
            None if body is None else json.dumps(body).encode(),
            {**self._server.headers(), "Content-Type": how},
            method=verb,
        )
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as answer:
                found: Object = json.load(answer)
                return found
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:300]
            raise BenchmarkError(f"the cluster refuses {verb} {path}: {said}") from None
