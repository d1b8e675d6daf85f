# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is checked against the rest of a cluster before an object is admitted to it."""

from __future__ import annotations

from typing import Any

from tests.support.kubernetes import kinds, limit_ranges, pod_security, quotas
from tests.support.kubernetes.refusals import not_allowed_here, not_found
from tests.support.kubernetes.resources import BUILT_IN, Resource
from tests.support.kubernetes.store import Store

Object = dict[str, Any]


def admit(store: Store, resource: Resource, item: Object, old: Object | None) -> None:
    """Check an object that is about to be written.

    Raises:
        RefusedError: It is not admitted.
    """
    namespace = item["metadata"].get("namespace", "")
    if namespace and old is None:
        _check_namespace(store, resource, item, namespace)
    if resource.id == kinds.PODS:
        if old is None:
            _set_priority(store, resource, item)
            _check_account(store, resource, item, namespace)
            _check_security(store, resource, item, namespace)
        _check_limits(store, resource, item, old)
        _check_quotas(store, resource, item, old)


def _check_namespace(store: Store, resource: Resource, item: Object, namespace: str) -> None:
    found = store.get((kinds.NAMESPACES, "", namespace))
    if found is None:
        raise not_found(BUILT_IN[0], namespace)
    if "deletionTimestamp" in found["metadata"]:
        why = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        cause = {"reason": "NamespaceTerminating", "message": why, "field": "metadata.namespace"}
        raise not_allowed_here(resource, item["metadata"]["name"], why, causes=[cause])


def _check_account(store: Store, resource: Resource, pod: Object, namespace: str) -> None:
    name = pod["spec"]["serviceAccountName"]
    if name != "default" and store.get((kinds.ACCOUNTS, namespace, name)) is None:
        why = f"error looking up service account {namespace}/{name}: "
        why += f'serviceaccount "{name}" not found'
        raise not_allowed_here(resource, pod["metadata"]["name"], why)


def _set_priority(store: Store, resource: Resource, pod: Object) -> None:
    """Give a pod the priority of its class; without one it has 0, and may not say otherwise."""
    spec, name = pod["spec"], pod["spec"].get("priorityClassName", "")
    found = store.get((kinds.PRIORITIES, "", name)) if name else {"value": 0}
    if found is None:
        why = f"no PriorityClass with name {name} was found"
        raise not_allowed_here(resource, pod["metadata"]["name"], why)
    if spec["priority"] not in (0, found["value"]):
        why = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec"
        why += f"; priority admission controller computed {found['value']} from the given"
        why += " PriorityClass name"
        raise not_allowed_here(resource, pod["metadata"]["name"], why)
    spec["priority"] = found["value"]
    if "preemptionPolicy" in found:
        spec["preemptionPolicy"] = found["preemptionPolicy"]


def _check_security(store: Store, resource: Resource, pod: Object, namespace: str) -> None:
    found = store.get((kinds.NAMESPACES, "", namespace)) or {"metadata": {}}
    level = found["metadata"].get("labels", {}).get(pod_security.ENFORCE, "privileged")
    why = pod_security.violations(pod, level)
    if why:
        said = f'violates PodSecurity "{level}:latest": {", ".join(why)}'
        raise not_allowed_here(resource, pod["metadata"]["name"], said)


def _check_limits(store: Store, resource: Resource, pod: Object, old: Object | None) -> None:
    if old is not None and pod["spec"]["containers"] == old["spec"]["containers"]:
        return
    why = []
    for found in store.list(kinds.LIMIT_RANGES, pod["metadata"]["namespace"]):
        if old is None:
            limit_ranges.fill(found, pod)
        why += limit_ranges.refusals(found, pod)
    if why:
        said = why[0] if len(why) == 1 else f"[{', '.join(why)}]"
        raise not_allowed_here(resource, pod["metadata"]["name"], said)


def _check_quotas(store: Store, resource: Resource, pod: Object, old: Object | None) -> None:
    if old is not None and pod["spec"]["containers"] == old["spec"]["containers"]:
        return
    metadata = pod["metadata"]
    all_pods = store.list(kinds.PODS, metadata["namespace"])
    others = quotas.total(one for one in all_pods if one["metadata"]["uid"] != metadata["uid"])
    before = quotas.cost(old) if old is not None else {}
    for quota in store.list(kinds.QUOTAS, metadata["namespace"]):
        why = quotas.refusal(quota, pod, before, others)
        if why is not None:
            raise not_allowed_here(resource, metadata["name"], why)
