# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The cluster of KUBECONFIG, with the client that tests use of a fake one.

Only `make test-cluster` uses it, by TFM_TEST_CLUSTER: nobody's cluster is touched by other tests.
"""

from __future__ import annotations

import builtins
import json
import os
import secrets
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from typing import Any

from tests.support.deadline import DEADLINE
from tests.support.kubernetes.client import Client
from tests.support.kubernetes.refusals import RefusedError
from tests.support.kubernetes.resources import BUILT_IN, Resource
from tf_malleable.cluster.kube import kubeconfig

Object = dict[str, Any]
IS_REAL = bool(os.environ.get("TFM_TEST_CLUSTER"))
_OURS = Resource("tf-malleable.dev", "v1alpha1", "malleablejobs", "MalleableJob")
_FLOWS = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", False)
_METHODS = {
    "get": "GET",
    "list": "GET",
    "create": "POST",
    "update": "PUT",
    "patch": "PATCH",
    "delete": "DELETE",
}


class _Catalogue:
    def __init__(self) -> None:
        self._resources = (*BUILT_IN, _OURS, _FLOWS)

    def named(self, plural: str) -> Resource:
        return next(r for r in self._resources if plural in (r.plural, r.qualified))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        found = ((r.api_version, r.kind) for r in self._resources)
        pairs = dict(zip(found, self._resources, strict=True))
        return pairs.get((api_version, kind))


class _Server:
    """What a Client needs of an API."""

    def __init__(self) -> None:
        self.catalogue = _Catalogue()


class RealClient(Client):
    """Calls the API server of KUBECONFIG, in a namespace of its own where none is named.

    Attributes:
        namespace: Which.
    """

    def __init__(self) -> None:
        super().__init__(_Server())  # type: ignore[arg-type]
        self._where = kubeconfig.find(None)
        self.namespace = f"tfm-test-{secrets.token_hex(4)}"
        self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})

    def list(self, plural: str, namespace: str = "", **query: str) -> list[Object]:
        """Return objects of a namespace, by default of this client's."""
        return super().list(plural, namespace or self.namespace, **query)

    def everywhere(self, plural: str) -> builtins.list[Object]:
        """Return the objects of all namespaces."""
        return super().list(plural)

    def log(self, pod: str) -> str:
        """Return what a pod's first container has printed; "" if it has not started."""
        with suppress(RefusedError):
            return self._ask("get", "pods", self.namespace, pod, "log").decode(errors="replace")
        return ""

    def metrics(self) -> str:
        """Return what the API server counts, in Prometheus's text format."""
        return self._send("GET", "metrics").decode()

    def close(self) -> None:
        """Delete the namespace, and with it what is there."""
        self.delete("namespaces", self.namespace)

    def _call(self, *words: Any, **more: Any) -> Object:
        found: Object = json.loads(self._ask(*words, **more))
        return found

    def _ask(
        self,
        verb: str,
        plural: str,
        namespace: str,
        name: str = "",
        part: str = "",
        body: Any = None,
        *,
        query: Any = None,
        content_type: str = "application/json",
    ) -> bytes:
        resource = self._api.catalogue.named(plural)
        words = ["api" if not resource.group else f"apis/{resource.group}", resource.version]
        # "default" is what the fake's client says where nothing is said.
        namespace = self.namespace if namespace == "default" else namespace
        words += ["namespaces", namespace] if resource.namespaced and namespace else []
        words += [each for each in (resource.plural, name, part) if each]
        path = f"{'/'.join(words)}?{urllib.parse.urlencode(query or {})}"
        if isinstance(body, dict) and body.get("metadata", {}).get("namespace") == "default":
            body = {**body, "metadata": {**body["metadata"], "namespace": self.namespace}}
        return self._send(_METHODS[verb], path, body, content_type)

    def _send(
        self, method: str, path: str, body: Any = None, content_type: str = "application/json"
    ) -> bytes:
        request = urllib.request.Request(
            f"{self._where.url}/{path}",
            data=None if body is None else json.dumps(body).encode(),
            headers={**self._where.headers(), "Content-Type": content_type},
            method=method,
        )
        try:
            with urllib.request.urlopen(
                request, timeout=DEADLINE, context=self._where.tls
            ) as answer:
                found: bytes = answer.read()
                return found
        except urllib.error.HTTPError as error:
            raise _refusal(error.code, error.read()) from None


def _refusal(code: int, text: bytes) -> RefusedError:
    try:
        said = json.loads(text)
    except ValueError:
        said = {"message": text.decode(errors="replace")}
    return RefusedError(code, said.get("reason", ""), said.get("message", ""), said.get("details"))
