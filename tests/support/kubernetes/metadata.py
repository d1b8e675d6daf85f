# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What all objects have: names, identities, owners, finalizers."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from tests.support.kubernetes.refusals import Cause, forbidden, invalid, required
from tests.support.kubernetes.resources import Resource

Object = dict[str, Any]
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9])?$")
_KEY = re.compile(r"^([a-z0-9.-]{1,253}/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]$")
_FINALIZERS = (
    "customresourcecleanup.apiextensions.k8s.io",
    "foregroundDeletion",
    "kubernetes",
    "orphan",
)
_RANDOM = "bcdfghjklmnpqrstvwxz2456789"
# Set by the server alone; what a client sends of them is ignored.
_OWN = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def now(seconds: float = 0) -> str:
    """Return the time in so many seconds, to the second, as metadata has it."""
    at = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def begin(item: Object, namespace: str) -> Object:
    """Return the metadata of an object that is created."""
    given = {k: v for k, v in item.get("metadata", {}).items() if k not in _OWN}
    if not given.get("name") and given.get("generateName"):
        given["name"] = given["generateName"][:58] + "".join(random.choices(_RANDOM, k=5))
    if namespace:
        given["namespace"] = namespace
    given["uid"] = str(uuid.uuid4())
    given["creationTimestamp"] = now()
    return given


def follow(new: Object, old: Object) -> Object:
    """Return the metadata of an object that is updated: the server's own as they were."""
    given = {k: v for k, v in new.get("metadata", {}).items() if k not in _OWN}
    given |= {k: old["metadata"][k] for k in _OWN if k in old["metadata"]}
    given["name"] = old["metadata"]["name"]
    if "namespace" in old["metadata"]:
        given["namespace"] = old["metadata"]["namespace"]
    # An empty list is none: where the last finalizer went, nothing is left.
    return {k: v for k, v in given.items() if v not in ([], {}, None)}


def validate(resource: Resource, item: Object, old: Object | None) -> Iterator[Cause]:
    """Tell what is wrong with an object's metadata."""
    metadata = item["metadata"]
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif resource.group != "rbac.authorization.k8s.io" and (
        not _SUBDOMAIN.match(name) or len(name) > 253
    ):
        yield invalid("metadata.name", name, "a lowercase RFC 1123 subdomain must consist of …")
    for kind in ("labels", "annotations"):
        for key, value in metadata.get(kind, {}).items():
            if not _KEY.match(key):
                yield invalid(f"metadata.{kind}", key, "name part must consist of …")
            if not isinstance(value, str):
                yield invalid(f"metadata.{kind}.{key}", value, "must be a string")
            elif kind == "labels" and not _VALUE.match(value):
                yield invalid(
                    f"metadata.{kind}", value, "a valid label must be an empty string or …"
                )
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        if "/" not in finalizer and finalizer not in _FINALIZERS:
            yield invalid(
                f"metadata.finalizers[{index}]", finalizer, "name is neither a standard finalizer "
                "name nor is it fully qualified"
            )  # fmt: skip
    yield from _owners(metadata.get("ownerReferences", []))
    if old is not None and "deletionTimestamp" in old["metadata"]:
        before = old["metadata"].get("finalizers", [])
        more = [one for one in metadata.get("finalizers", ()) if one not in before]
        if more:
            why = "no new finalizers can be added if the object is being deleted, found new "
            yield forbidden("metadata.finalizers", f"{why}finalizers {more}")


def _owners(owners: list[Object]) -> Iterator[Cause]:
    for index, owner in enumerate(owners):
        for name in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(name):
                yield required(f"metadata.ownerReferences[{index}].{name}", "must not be empty")
    if sum(owner.get("controller") is True for owner in owners) > 1:
        why = "Only one reference can have Controller set to true"
        yield invalid("metadata.ownerReferences", len(owners), why)
