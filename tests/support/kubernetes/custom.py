# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""CRDs, the custom resources that they define, and the scale subresource of these."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from tests.support.kubernetes import schema
from tests.support.kubernetes.metadata import now
from tests.support.kubernetes.refusals import Cause, RefusedError, invalid, required
from tests.support.kubernetes.resources import Resource

Object = dict[str, Any]
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def definition_causes(crd: Object) -> Iterator[Cause]:
    """Tell what is wrong with a CRD."""
    spec = crd.get("spec", {})
    names = spec.get("names", {})
    for field, value in (
        ("spec.group", spec.get("group")),
        ("spec.scope", spec.get("scope")),
        ("spec.names.plural", names.get("plural")),
        ("spec.names.kind", names.get("kind")),
        ("spec.versions", spec.get("versions")),
    ):
        if not value:
            yield required(field)
            return
    wanted = f"{names['plural']}.{spec['group']}"
    if crd["metadata"]["name"] != wanted:
        why = 'must be spec.names.plural+"."+spec.group'
        yield invalid("metadata.name", crd["metadata"]["name"], why)
    if sum(bool(version.get("storage")) for version in spec["versions"]) != 1:
        why = "must have exactly one version marked as storage version"
        yield invalid("spec.versions", [version["name"] for version in spec["versions"]], why)
    for index, version in enumerate(spec["versions"]):
        at = f"spec.versions[{index}].schema.openAPIV3Schema"
        given = version.get("schema", {}).get("openAPIV3Schema")
        if given is None:
            yield required(at, "schemas are required")
        else:
            yield from schema.structural(given, at)


def established(crd: Object) -> Object:
    """Return the status of a CRD that is served, as of now."""
    spec = crd["spec"]
    conditions = [
        {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now(),
        }
        for kind, reason, message in (
            ("NamesAccepted", "NoConflicts", "no conflicts found"),
            ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
        )
    ]
    names = {"singular": spec["names"]["kind"].lower(), **spec["names"]}
    stored = [version["name"] for version in spec["versions"] if version["storage"]]
    return {"acceptedNames": names, "conditions": conditions, "storedVersions": stored}


def shape(resource: Resource, item: Object) -> tuple[Object, list[str]]:
    """Return a custom object pruned and with its defaults, and the fields that it lost."""
    assert resource.custom is not None
    kept, unknown = schema.prune(item, resource.custom.schema)
    return schema.default(kept, resource.custom.schema), unknown


def causes(resource: Resource, item: Object, old: Object | None) -> Iterator[Cause]:
    """Tell what is wrong with a custom object."""
    assert resource.custom is not None
    yield from schema.validate(item, resource.custom.schema, old)


def _read(item: Any, path: str) -> Any:
    for part in path.strip(".").split("."):
        if not isinstance(item, dict) or part not in item:
            return None
        item = item[part]
    return item


def scale_of(resource: Resource, item: Object) -> Object:
    """Return a custom object's Scale.

    Raises:
        RefusedError: It has no number of replicas.
    """
    assert resource.custom is not None
    assert resource.custom.scale is not None
    paths = resource.custom.scale
    replicas = _read(item, paths["specReplicasPath"])
    if replicas is None:
        why = f'the spec replicas field "{paths["specReplicasPath"]}" does not exist'
        raise RefusedError(500, "InternalError", f"Internal error occurred: {why}")
    status: Object = {"replicas": _read(item, paths["statusReplicasPath"]) or 0}
    if "labelSelectorPath" in paths:
        status["selector"] = _read(item, paths["labelSelectorPath"]) or ""
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {k: v for k, v in item["metadata"].items() if k in kept},
        "spec": {"replicas": replicas},
        "status": status,
    }


def scaled(resource: Resource, item: Object, scale: Object) -> Object:
    """Return a custom object with the replicas that a Scale wants."""
    assert resource.custom is not None
    assert resource.custom.scale is not None
    changed = copy.deepcopy(item)
    *holders, last = resource.custom.scale["specReplicasPath"].strip(".").split(".")
    below = changed
    for part in holders:
        below = below.setdefault(part, {})
    below[last] = scale.get("spec", {}).get("replicas", 0)
    version = scale.get("metadata", {}).get("resourceVersion")
    if version is not None:
        changed["metadata"]["resourceVersion"] = version
    return changed
