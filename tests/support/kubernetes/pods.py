# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pods as a server keeps them: their defaults, what is refused, what of them may change."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tests.support.kubernetes import quantities
from tests.support.kubernetes.refusals import (
    Cause,
    duplicate,
    forbidden,
    invalid,
    required,
    unsupported,
)

Object = dict[str, Any]
LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
_ENV = re.compile(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")
# What the nodes here carry out, and what makes no difference to them.
_SPEC_FIELDS = frozenset(
    (
        "affinity",
        "automountServiceAccountToken",
        "containers",
        "dnsPolicy",
        "enableServiceLinks",
        "hostname",
        "imagePullSecrets",
        "nodeName",
        "nodeSelector",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "restartPolicy",
        "schedulerName",
        "schedulingGates",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "shareProcessNamespace",
        "subdomain",
        "terminationGracePeriodSeconds",
        "tolerations",
        "volumes",
    )
)
_CONTAINER_FIELDS = frozenset(
    (
        "args",
        "command",
        "env",
        "image",
        "imagePullPolicy",
        "name",
        "ports",
        "resizePolicy",
        "resources",
        "securityContext",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "volumeMounts",
        "workingDir",
    )
)
_RESTARTS = ["Always", "OnFailure", "Never"]
_UNREACHABLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)
TERMINAL = ("Succeeded", "Failed")


def fill(pod: Object) -> Object:
    """Return a pod with its defaults, as those that are left out."""
    pod = copy.deepcopy(pod)
    spec = pod.setdefault("spec", {})
    for name, value in (
        ("restartPolicy", "Always"),
        ("terminationGracePeriodSeconds", 30),
        ("dnsPolicy", "ClusterFirst"),
        ("securityContext", {}),
        ("schedulerName", "default-scheduler"),
        ("serviceAccountName", "default"),
        ("enableServiceLinks", True),
        ("preemptionPolicy", "PreemptLowerPriority"),
        ("priority", 0),
    ):
        spec.setdefault(name, value)
    tolerations = spec.setdefault("tolerations", [])
    for key in _UNREACHABLE:
        if not any(one.get("key") in (key, None) for one in tolerations):
            more = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            tolerations.append({**more, "tolerationSeconds": 300})
    for container in spec.get("containers") or ():
        _fill_container(container)
    pod.setdefault("status", {})
    return pod


def _fill_container(container: Object) -> None:
    image = container.get("image", "")
    latest = ":" not in image.rpartition("/")[2] or image.endswith(":latest")
    container.setdefault("imagePullPolicy", "Always" if latest else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        field = variable.get("valueFrom", {}).get("fieldRef")
        if field is not None:
            field.setdefault("apiVersion", "v1")
    resources = fill_resources(container.setdefault("resources", {}))
    names = sorted(resources.get("requests", {}).keys() & {"cpu", "memory"})
    policy = [{"resourceName": name, "restartPolicy": "NotRequired"} for name in names]
    if policy:
        container.setdefault("resizePolicy", policy)


def fill_resources(resources: Object) -> Object:
    """Write quantities as servers do, and request what is limited but not requested; in place."""
    for kind in ("limits", "requests"):
        for name, quantity in resources.get(kind, {}).items():
            try:
                resources[kind][name] = quantities.canonical(quantity)
            except ValueError:
                continue  # Found by validation.
    for name, quantity in resources.get("limits", {}).items():
        resources.setdefault("requests", {}).setdefault(name, quantity)
    return resources


def quality(spec: Object) -> str:
    """Return a pod's QoS class."""
    resources = [container.get("resources", {}) for container in spec.get("containers", ())]
    if not any(one.get("requests") or one.get("limits") for one in resources):
        return "BestEffort"
    for one in resources:
        limits, requests = one.get("limits", {}), one.get("requests", {})
        for name in ("cpu", "memory"):
            if name not in limits or quantities.parse(limits[name]) != quantities.parse(
                requests.get(name, 0)
            ):
                return "Burstable"
    return "Guaranteed"


def requests(pod: Object, *, cautious: bool = False) -> dict[str, Fraction]:
    """Return what a pod requests of each resource, in cores and bytes.

    Args:
        pod: The pod.
        cautious: Take the largest of what is desired, allocated and actual, as the
            scheduler does while a resize is under way.
    """
    total: dict[str, Fraction] = {"pods": Fraction(1)}
    statuses = {one["name"]: one for one in pod.get("status", {}).get("containerStatuses", ())}
    for container in pod["spec"].get("containers", ()):
        sets = [container.get("resources", {}).get("requests", {})]
        if cautious:
            status = statuses.get(container["name"], {})
            sets.append(status.get("allocatedResources", {}))
            sets.append(status.get("resources", {}).get("requests", {}))
        for name in {name for one in sets for name in one}:
            most = max(quantities.parse(one.get(name, 0)) for one in sets)
            total[name] = total.get(name, Fraction(0)) + most
    return total


def is_live(pod: Object) -> bool:
    """Say whether a pod counts against nodes and quotas: it has not ended."""
    return pod.get("status", {}).get("phase") not in TERMINAL


def validate(pod: Object) -> Iterator[Cause]:
    """Tell what is wrong with a pod that is filled."""
    spec = pod["spec"]
    for name in sorted(spec.keys() - _SPEC_FIELDS):
        yield forbidden(f"spec.{name}", "the nodes of this fake cluster know of no such field")
    if not spec.get("containers"):
        yield required("spec.containers")
    if spec["restartPolicy"] not in _RESTARTS:
        yield unsupported("spec.restartPolicy", spec["restartPolicy"], _RESTARTS)
    grace = spec["terminationGracePeriodSeconds"]
    if not isinstance(grace, int) or grace < 0:
        yield invalid("spec.terminationGracePeriodSeconds", grace, "must be at least 0")
    names = []
    for index, container in enumerate(spec.get("containers") or ()):
        at = f"spec.containers[{index}]"
        if container.get("name") in names:
            yield duplicate(f"{at}.name", container["name"])
        names.append(container.get("name"))
        yield from _container(container, at)
        policies = [one["restartPolicy"] for one in container.get("resizePolicy", ())]
        if spec["restartPolicy"] == "Never" and "RestartContainer" in policies:
            yield unsupported(f"{at}.resizePolicy", "RestartContainer", ["NotRequired"])
    yield from _affinity(spec.get("affinity", {}))


def _container(container: Object, at: str) -> Iterator[Cause]:
    for name in sorted(container.keys() - _CONTAINER_FIELDS):
        yield forbidden(f"{at}.{name}", "the nodes of this fake cluster know of no such field")
    name = container.get("name", "")
    if not name:
        yield required(f"{at}.name")
    elif not LABEL.match(name):
        yield invalid(f"{at}.name", name, "a lowercase RFC 1123 label must consist of …")
    if not container.get("image"):
        yield required(f"{at}.image")
    for index, variable in enumerate(container.get("env", ())):
        if not _ENV.match(variable.get("name", "")):
            why = "a valid environment variable name must consist of …"
            yield invalid(f"{at}.env[{index}].name", variable.get("name"), why)
        if not isinstance(variable.get("value", ""), str):
            why = "must be a string: quote numbers"
            yield invalid(f"{at}.env[{index}].value", variable["value"], why)
        if variable.get("value") and "valueFrom" in variable:
            why = "may not be specified when `value` is not empty"
            yield invalid(f"{at}.env[{index}].valueFrom", "", why)
    yield from resource_causes(container["resources"], f"{at}.resources")


def resource_causes(resources: Object, at: str) -> Iterator[Cause]:
    """Tell what is wrong with a container's resources."""
    values: dict[tuple[str, str], Fraction] = {}
    for kind in ("limits", "requests"):
        for name, quantity in resources.get(kind, {}).items():
            try:
                values[kind, name] = quantities.parse(quantity)
            except ValueError as error:
                yield invalid(f"{at}.{kind}.{name}", quantity, str(error))
                continue
            if values[kind, name] < 0:
                yield invalid(f"{at}.{kind}.{name}", quantity, "must be greater than or equal to 0")
    for name, quantity in resources.get("requests", {}).items():
        most = values.get(("limits", name))
        if most is not None and values.get(("requests", name), most) > most:
            limit = resources["limits"][name]
            why = f"must be less than or equal to {name} limit of {limit}"
            yield invalid(f"{at}.requests", quantity, why)


def _affinity(affinity: Object) -> Iterator[Cause]:
    at = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    for name in sorted(affinity.keys() - {"nodeAffinity"}):
        yield forbidden(f"spec.affinity.{name}", "this fake cluster's scheduler does not know it")
    wanted = affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if wanted is not None and not wanted.get("nodeSelectorTerms"):
        yield required(f"{at}.nodeSelectorTerms", "must have at least one node selector term")


def may_become(new: Object, old: Object) -> Iterator[Cause]:
    """Tell what of a pod was changed that may not be, other than by a subresource."""
    masked = copy.deepcopy(new["spec"])
    before = copy.deepcopy(old["spec"])
    pairs = zip(masked.get("containers", ()), before["containers"], strict=False)
    for container, was in pairs:
        container["image"] = was["image"]
    kept = before.get("tolerations", [])
    if all(one in masked.get("tolerations", []) for one in kept):
        masked["tolerations"] = kept
    gates = before.pop("schedulingGates", [])
    if all(one in gates for one in masked.pop("schedulingGates", [])) and masked == before:
        return
    yield forbidden("spec", _MAY_CHANGE)


def resized(new: Object, old: Object) -> tuple[Object, list[Cause]]:
    """Return a pod as the resize subresource makes it of the old one, and what is wrong."""
    changed = copy.deepcopy(old)
    containers = {one["name"]: one for one in new["spec"].get("containers", ())}
    wrong: list[Cause] = []
    for index, container in enumerate(changed["spec"]["containers"]):
        wanted = containers.get(container["name"], container)
        at = f"spec.containers[{index}].resources"
        resources = fill_resources(copy.deepcopy(wanted.get("resources", {})))
        before, container["resources"] = container["resources"], resources
        wrong += resource_causes(resources, at)
        for kind in ("limits", "requests"):
            for name in before.get(kind, {}).keys() - resources.get(kind, {}).keys():
                wrong.append(
                    forbidden(f"{at}.{kind}", f"resource {kind} cannot be removed: {name}")
                )
            for name in (before.get(kind, {}).keys() | resources.get(kind, {}).keys()) - {
                "cpu",
                "memory",
            }:
                if before.get(kind, {}).get(name) != resources.get(kind, {}).get(name):
                    wrong.append(forbidden("spec", "only cpu and memory resources are mutable"))
    masked = copy.deepcopy(new["spec"])
    for container, was in zip(
        masked.get("containers", ()), changed["spec"]["containers"], strict=False
    ):
        container["resources"] = was["resources"]
        container["resizePolicy"] = was.get("resizePolicy", container.get("resizePolicy"))
        if container["resizePolicy"] is None:
            del container["resizePolicy"]
    if masked != changed["spec"]:
        wrong.append(forbidden("spec", "only cpu and memory resources are mutable"))
    if not wrong and quality(changed["spec"]) != quality(old["spec"]):
        why = "Pod QOS Class may not change as a result of resizing"
        wrong.append(invalid("spec", quality(changed["spec"]), why))
    return changed, wrong
