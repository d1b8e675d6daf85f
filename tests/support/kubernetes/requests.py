# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Requests, as paths and queries say them, and what is answered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.kubernetes import kinds, selectors
from tests.support.kubernetes.authorization import ADMIN, Call, User
from tests.support.kubernetes.refusals import method_not_allowed, no_such_path
from tests.support.kubernetes.resources import Catalogue, Resource

Object = dict[str, Any]
_ON_ONE = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_ON_ALL = {"GET": "list", "POST": "create", "DELETE": "deletecollection"}


@dataclass(frozen=True)
class Request:
    """What is asked for, and by whom."""

    verb: str
    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    content_type: str = "application/json"
    user: User = ADMIN

    @property
    def call(self) -> Call:
        """Return it in the terms of roles."""
        part = f"/{self.subresource}" if self.subresource else ""
        resource = self.resource
        return Call(
            self.user.name,
            self.verb,
            resource.group,
            resource.plural + part,
            # A namespace is in itself, as far as roles are concerned.
            self.name if resource.id == kinds.NAMESPACES else self.namespace,
            self.name,
        )

    @property
    def key(self) -> tuple[tuple[str, str], str, str]:
        return self.resource.id, self.namespace, self.name

    def selects(self) -> Callable[[Object], bool]:
        """Return what says whether an object is among those asked for.

        Raises:
            RefusedError: A selector cannot be understood.
        """
        labelled = selectors.labels(self.query.get("labelSelector", ""))
        of_fields = selectors.fields(self.resource.id, self.query.get("fieldSelector", ""))

        def test(item: Object) -> bool:
            metadata = item["metadata"]
            inside = self.namespace in ("", metadata.get("namespace", ""))
            return inside and labelled(metadata.get("labels", {})) and of_fields(item)

        return test


@dataclass(frozen=True)
class Answer:
    """What is answered; warnings are about unknown fields."""

    code: int
    body: Object
    warnings: tuple[str, ...] = ()


def parse(
    catalogue: Catalogue, method: str, path: str, query: Mapping[str, str]
) -> tuple[str, Resource, str, str, str]:
    """Return verb, resource, namespace, name and subresource of a request.

    Raises:
        RefusedError: Nothing is there, or it does not take this method.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    namespace = ""
    inside = len(rest) > 2 and rest[0] == "namespaces" and rest[2] not in ("status", "finalize")
    if inside:
        namespace, rest = rest[1], rest[2:]
    resource = catalogue.find(group, version, rest[0])
    if resource is None or len(rest) > 3 or (namespace and not resource.namespaced):
        raise no_such_path()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    if subresource and subresource not in resource.subresources:
        raise no_such_path()
    if resource.namespaced and name and not namespace:
        raise no_such_path()
    verb = _verb(method, name, subresource, query)
    if verb == "create" and resource.namespaced and not namespace:
        raise method_not_allowed()
    return verb, resource, namespace, name, subresource


def _verb(method: str, name: str, subresource: str, query: Mapping[str, str]) -> str:
    if subresource in ("binding", "eviction"):
        verb = {"POST": "create"}.get(method)
    elif subresource == "log":
        verb = {"GET": "get"}.get(method)
    else:
        verb = (_ON_ONE if name else _ON_ALL).get(method)
    if verb is None or (subresource and verb == "delete"):
        raise method_not_allowed()
    if verb == "list" and query.get("watch") in ("1", "true", "True"):
        return "watch"
    return verb
