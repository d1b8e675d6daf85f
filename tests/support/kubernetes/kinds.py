# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What differs between kinds: what is filled in, what a write may change, what is refused."""

from __future__ import annotations

import base64
import binascii
import copy
from collections.abc import Callable, Iterator
from typing import Any

from tests.support.kubernetes import custom, deployments, metadata, pods
from tests.support.kubernetes.refusals import Cause, bad_request, invalid, required
from tests.support.kubernetes.resources import Resource
from tests.support.kubernetes.schema import is_time

Object = dict[str, Any]
Id = tuple[str, str]

NAMESPACES, NODES, PODS = ("", "namespaces"), ("", "nodes"), ("", "pods")
SERVICES, SECRETS, EVENTS = ("", "services"), ("", "secrets"), ("", "events")
PRIORITIES = ("scheduling.k8s.io", "priorityclasses")
LIMIT_RANGES = ("", "limitranges")
QUOTAS, ACCOUNTS, CONFIGMAPS = ("", "resourcequotas"), ("", "serviceaccounts"), ("", "configmaps")
BUDGETS = ("policy", "poddisruptionbudgets")
LEASES = ("coordination.k8s.io", "leases")
DEPLOYMENTS = ("apps", "deployments")
CRDS = ("apiextensions.k8s.io", "customresourcedefinitions")
# Whose generation is counted. Nodes, for one, have none.
_COUNTED = (PODS, BUDGETS, CRDS, DEPLOYMENTS)
# Who answers a deletion with what was deleted, rather than with a Status.
RETURNED = (PODS, SERVICES, ACCOUNTS, QUOTAS)
# Whose status a client may give with the object.
_STATUS_FROM_CLIENT = (NODES,)


def create(resource: Resource, body: Object, namespace: str) -> tuple[Object, list[str]]:
    """Return an object as it begins, and the unknown fields that it lost."""
    item = copy.deepcopy(body)
    unknown: list[str] = []
    if resource.custom is not None:
        item, unknown = custom.shape(resource, item)
    if "status" in resource.subresources and resource.id not in _STATUS_FROM_CLIENT:
        item.pop("status", None)
    if resource.id in _FILL:
        item = _FILL[resource.id](item)
    item["metadata"] = metadata.begin(item, namespace)
    if resource.custom is not None or resource.id in _COUNTED:
        item["metadata"]["generation"] = 1
    if resource.id == PODS:
        item["status"] = {"phase": "Pending", "qosClass": _quality(item)}
    if resource.id == NAMESPACES:
        labels = item["metadata"].setdefault("labels", {})
        labels["kubernetes.io/metadata.name"] = item["metadata"].get("name", "")
        item["spec"], item["status"] = {"finalizers": ["kubernetes"]}, {"phase": "Active"}
    if resource.id == CRDS:
        item["metadata"].setdefault("finalizers", []).append(custom.CLEANUP)
    return item, unknown


def _quality(pod: Object) -> str:
    try:
        return pods.quality(pod["spec"])
    except ValueError:
        return ""  # Its quantities are none, for which it is refused.


def update(
    resource: Resource, subresource: str, body: Object, old: Object
) -> tuple[Object, list[str]]:
    """Return an object as a write to it, or to its status, makes it, and the fields it lost."""
    new = copy.deepcopy(body)
    unknown: list[str] = []
    if resource.custom is not None:
        new, unknown = custom.shape(resource, new)
    following = metadata.follow(new, old)
    if subresource == "status":
        kept = old["metadata"] if resource.custom is not None else following
        status = {"status": new["status"]} if "status" in new else {}
        return {
            **{k: v for k, v in old.items() if k != "status"},
            "metadata": kept,
            **status,
        }, unknown
    if "status" in resource.subresources:
        new.pop("status", None)
        if "status" in old:
            new["status"] = old["status"]
    if resource.id in _FILL:
        new = _FILL[resource.id](new)
    if resource.id == NAMESPACES:
        new["spec"] = new.get("spec", {}) if subresource == "finalize" else old["spec"]
    new["metadata"] = following
    if "generation" in following and _content(new) != _content(old):
        following["generation"] += 1
    return new, unknown


def _content(item: Object) -> Object:
    return {k: v for k, v in item.items() if k not in ("metadata", "status")}


def validate(
    resource: Resource, subresource: str, item: Object, old: Object | None
) -> Iterator[Cause]:
    """Tell what is wrong with an object that is to be written."""
    yield from metadata.validate(resource, item, old)
    if resource.custom is not None:
        yield from custom.causes(resource, item, old)
    elif resource.id == PODS and old is None:
        yield from pods.validate(item)
    elif resource.id == PODS and old is not None and not subresource:
        yield from pods.may_become(item, old)
    elif resource.id in _VALIDATE:
        yield from _VALIDATE[resource.id](item)


def _fill_secret(secret: Object) -> Object:
    secret.setdefault("type", "Opaque")
    for name, text in secret.pop("stringData", {}).items():
        secret.setdefault("data", {})[name] = base64.b64encode(text.encode()).decode()
    for name, text in secret.get("data", {}).items():
        try:
            base64.b64decode(text, validate=True)
        except (binascii.Error, TypeError) as error:
            raise bad_request(f"Secret in version v1 cannot be handled: {name}: {error}") from error
    return secret


def _fill_service(service: Object) -> Object:
    spec = service.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports", ()):
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))
    service.setdefault("status", {"loadBalancer": {}})
    return service


def _fill_lease(lease: Object) -> Object:
    for name in ("acquireTime", "renewTime"):
        value = lease.get("spec", {}).get(name)
        if value is not None and not is_time(value):
            raise bad_request(
                f"Lease in version v1 cannot be handled: {name}: cannot parse {value!r}"
            )
    return lease


def _fill_definition(crd: Object) -> Object:
    names = crd.get("spec", {}).get("names", {})
    if names.get("kind"):
        names.setdefault("listKind", names["kind"] + "List")
        names.setdefault("singular", names["kind"].lower())
    crd.get("spec", {}).setdefault("conversion", {"strategy": "None"})
    return crd


_FILL: dict[Id, Callable[[Object], Object]] = {
    PODS: pods.fill,
    SECRETS: _fill_secret,
    SERVICES: _fill_service,
    LEASES: _fill_lease,
    CRDS: _fill_definition,
    DEPLOYMENTS: deployments.fill,
}


def _event(event: Object) -> Iterator[Cause]:
    about = event.get("involvedObject", {})
    own = event["metadata"].get("namespace")
    wanted = about.get("namespace") or "default"
    if wanted != own:
        yield invalid("involvedObject.namespace", wanted, "does not match event.namespace")


def _lease(lease: Object) -> Iterator[Cause]:
    spec = lease.get("spec", {})
    for name, least in (("leaseDurationSeconds", 1), ("leaseTransitions", 0)):
        value = spec.get(name)
        if value is not None and value < least:
            yield invalid(f"spec.{name}", value, f"must be greater than or equal to {least}")


def _service(service: Object) -> Iterator[Cause]:
    spec = service["spec"]
    if not spec.get("ports") and spec.get("clusterIP") != "None":
        yield required("spec.ports")


def _budget(budget: Object) -> Iterator[Cause]:
    spec = budget.get("spec", {})
    if "minAvailable" in spec and "maxUnavailable" in spec:
        why = "minAvailable and maxUnavailable cannot be both set"
        yield invalid("spec", sorted(spec), why)


_VALIDATE: dict[Id, Callable[[Object], Iterator[Cause]]] = {
    EVENTS: _event,
    LEASES: _lease,
    SERVICES: _service,
    BUDGETS: _budget,
    CRDS: custom.definition_causes,
    DEPLOYMENTS: deployments.validate,
}
