# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Deletions: grace periods, finalizers, preconditions, and when an object is gone at last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.kubernetes import kinds, metadata, pods
from tests.support.kubernetes.refusals import conflict
from tests.support.kubernetes.requests import Answer, Request
from tests.support.kubernetes.resources import Resource
from tests.support.kubernetes.store import Key

if TYPE_CHECKING:
    from tests.support.kubernetes.api import Api

Object = dict[str, Any]
_POLICIES = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}


def delete(api: Api, request: Request) -> Answer:
    """Delete an object, or begin to.

    Raises:
        RefusedError: It is not there, or not as it was expected to be.
    """
    item, resource = api.found(request), request.resource
    options = {**(request.body if isinstance(request.body, dict) else {})}
    for name in ("gracePeriodSeconds", "propagationPolicy"):
        if name in request.query:
            options.setdefault(name, request.query[name])
    _check(resource, item, options.get("preconditions") or {})
    if request.query.get("dryRun") == "All" or options.get("dryRun") == ["All"]:
        return Answer(200, item)
    marked = _marked(resource, item, options)
    key: Key = request.key
    if is_over(marked):
        gone = removed(api, resource, key)
        if resource.id in kinds.RETURNED:
            return Answer(200, gone)
        details = {"name": request.name, "kind": resource.plural, "uid": gone["metadata"]["uid"]}
        if resource.group:
            details["group"] = resource.group
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Answer(200, {**status, "details": details})
    if marked != item:
        marked = api.store.put(key, marked)
    return Answer(200, marked)


def _check(resource: Resource, item: Object, preconditions: Object) -> None:
    found = item["metadata"]
    for name, said in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted = preconditions.get(name)
        if wanted and wanted != found[name]:
            why = f"{said} in precondition: {wanted}, {said} in object meta: {found[name]}"
            raise conflict(resource, found["name"], f"Precondition failed: {why}")


def _marked(resource: Resource, item: Object, options: Object) -> Object:
    """Return an object as its deletion leaves it."""
    found = dict(item["metadata"])
    grace = _grace(resource, item, options.get("gracePeriodSeconds"))
    finalizers = list(found.get("finalizers", ()))
    wanted = _POLICIES.get(options.get("propagationPolicy", ""))
    if wanted and wanted not in finalizers:
        finalizers.append(wanted)
    if finalizers:
        found["finalizers"] = finalizers
    if "deletionTimestamp" not in found:
        found["deletionTimestamp"] = metadata.now(grace)
        if "generation" in found:
            found["generation"] += 1
        found["deletionGracePeriodSeconds"] = grace
    elif grace < found["deletionGracePeriodSeconds"]:
        found["deletionTimestamp"] = metadata.now(grace)
        found["deletionGracePeriodSeconds"] = grace
    marked = {**item, "metadata": found}
    if resource.id == kinds.NAMESPACES:
        marked["status"] = {**item["status"], "phase": "Terminating"}
    return marked


def _grace(resource: Resource, item: Object, asked: Any) -> int:
    if resource.id != kinds.PODS:
        return 0
    spec = item["spec"]
    if not spec.get("nodeName") or not pods.is_live(item):
        return 0  # Nobody is there who could use it.
    return int(asked) if asked is not None else int(spec["terminationGracePeriodSeconds"])


def is_over(item: Object) -> bool:
    """Say whether nothing holds an object any more that is being deleted."""
    found = item["metadata"]
    if "deletionTimestamp" not in found or found.get("finalizers"):
        return False
    if item.get("kind") == "Namespace" and item["spec"].get("finalizers"):
        return False
    return bool(found.get("deletionGracePeriodSeconds", 0) == 0)


def removed(api: Api, resource: Resource, key: Key) -> Object:
    """Remove an object, and what goes with it; return it."""
    gone = api.store.remove(key)
    if resource.id == kinds.CRDS:
        api.catalogue.forget(gone["spec"]["group"], gone["spec"]["names"]["plural"])
    return gone
