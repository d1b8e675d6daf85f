# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A client inside of the cluster: for its own parts, and for tests that look behind the HTTP."""

from __future__ import annotations

import copy
from typing import Any

from tests.support.kubernetes import applying, patching
from tests.support.kubernetes.api import Api
from tests.support.kubernetes.authorization import ADMIN, User
from tests.support.kubernetes.refusals import RefusedError
from tests.support.kubernetes.requests import Request

Object = dict[str, Any]
NAMESPACE = "default"


class Client:
    """Calls an Api as a user; raises RefusedError, and UnavailableError while it is down.

    Resources are named by their plural, followed by their group where that is not clear.
    """

    def __init__(self, api: Api, user: User = ADMIN) -> None:
        self._api, self._user = api, user

    def get(self, plural: str, name: str, namespace: str = NAMESPACE, part: str = "") -> Object:
        """Return an object, or a subresource of it."""
        return self._call("get", plural, namespace, name, part)

    def find(self, plural: str, name: str, namespace: str = NAMESPACE) -> Object | None:
        """Return an object; None if there is none."""
        try:
            return self.get(plural, name, namespace)
        except RefusedError as refusal:
            if refusal.code != 404:
                raise
            return None

    def list(self, plural: str, namespace: str = "", **query: str) -> list[Object]:
        """Return objects of a namespace, or of all; a query has labelSelector, say."""
        return list(self._call("list", plural, namespace, query=query)["items"])

    def create(self, item: Object, namespace: str = NAMESPACE) -> Object:
        """Create an object, in the namespace that it names, or in this one."""
        resource = self._api.catalogue.of_kind(item["apiVersion"], item["kind"])
        if resource is None:
            raise KeyError(f"there is no kind {item['kind']} in {item['apiVersion']}")
        namespace = item.get("metadata", {}).get("namespace", namespace)
        return self._call("create", resource.qualified, namespace, body=item)

    def replace(self, item: Object, part: str = "") -> Object:
        """Write an object, or a subresource of it."""
        resource = self._api.catalogue.of_kind(item["apiVersion"], item["kind"])
        assert resource is not None
        metadata = item["metadata"]
        namespace, name = metadata.get("namespace", NAMESPACE), metadata["name"]
        return self._call("update", resource.qualified, namespace, name, part, item)

    def patch(
        self, plural: str, name: str, patch: Any, namespace: str = NAMESPACE, part: str = ""
    ) -> Object:
        """Apply a JSON patch, if it is a list, or a merge patch to an object."""
        kind = patching.JSON if isinstance(patch, list) else patching.MERGE
        return self._call("patch", plural, namespace, name, part, patch, content_type=kind)

    def apply(
        self, item: Object, manager: str = "tests", namespace: str = NAMESPACE, **query: str
    ) -> Object:
        """Apply an object, in the namespace that it names, or in this one."""
        resource = self._api.catalogue.of_kind(item["apiVersion"], item["kind"])
        if resource is None:
            raise KeyError(f"there is no kind {item['kind']} in {item['apiVersion']}")
        metadata = item["metadata"]
        namespace = metadata.get("namespace", namespace)
        query = {"fieldManager": manager, **query}
        kind = applying.CONTENT_TYPE
        return self._call(
            "patch", resource.qualified, namespace, metadata["name"], body=item, query=query,
            content_type=kind,
        )  # fmt: skip

    def set_status(self, plural: str, item: Object, status: Object) -> Object:
        """Write the status of an object, unless that has changed since it was read."""
        metadata = item["metadata"]
        patch = [
            {"op": "test", "path": f"/metadata/{name}", "value": metadata[name]}
            for name in ("uid", "resourceVersion")
        ]
        patch.append({"op": "add", "path": "/status", "value": status})
        namespace = metadata.get("namespace", NAMESPACE)
        return self.patch(plural, metadata["name"], patch, namespace, "status")

    def delete(self, plural: str, name: str, namespace: str = NAMESPACE, **options: Any) -> Object:
        """Delete an object; options are those of DeleteOptions."""
        return self._call("delete", plural, namespace, name, body=options)

    def post(self, plural: str, name: str, part: str, body: Object, namespace: str) -> Object:
        """Create a subresource: a binding or an eviction."""
        return self._call("create", plural, namespace, name, part, body)

    def evict(self, name: str, namespace: str = NAMESPACE) -> Object:
        """Evict a pod."""
        return self.post("pods", name, "eviction", {"metadata": {"name": name}}, namespace)

    def _call(
        self,
        verb: str,
        plural: str,
        namespace: str,
        name: str = "",
        part: str = "",
        body: Any = None,
        **more: Any,
    ) -> Object:
        resource = self._api.catalogue.named(plural)
        where = namespace if resource.namespaced else ""
        request = Request(
            verb, resource, where, name, part, body=copy.deepcopy(body), user=self._user, **more
        )
        self._api.authorize(request)
        return copy.deepcopy(self._api.serve(request).body)
