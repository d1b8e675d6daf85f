# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""LimitRanges: what they fill in, and which containers they do not admit.

Seen on Kubernetes 1.36.2: a coordinator that requests 50m is refused where min has cpu: 100m.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.support.kubernetes import quantities

Object = dict[str, Any]


def fill(found: Object, pod: Object) -> None:
    """Give containers without requests or limits those that a LimitRange has for them."""
    for limit in _of_containers(found):
        for container in pod["spec"]["containers"]:
            resources = container.setdefault("resources", {})
            usual = limit.get("default", {})
            asked = {**usual, **limit.get("defaultRequest", {})}
            for kind, values in (("limits", usual), ("requests", asked)):
                for name, value in values.items():
                    resources.setdefault(kind, {}).setdefault(name, value)


def refusals(found: Object, pod: Object) -> Iterator[str]:
    """Tell why a LimitRange does not admit a pod."""
    for limit in _of_containers(found):
        for container in pod["spec"]["containers"]:
            resources = container.get("resources", {})
            for name, least in limit.get("min", {}).items():
                yield from _refusal("minimum", name, least, resources.get("requests", {}))
            for name, most in limit.get("max", {}).items():
                yield from _refusal("maximum", name, most, resources.get("limits", {}))


def _refusal(bound: str, name: str, value: str, given: Object) -> Iterator[str]:
    kind = "request" if bound == "minimum" else "limit"
    said = f"{bound} {name} usage per Container is {value}"
    if name not in given:
        yield f"{said}.  No {kind} is specified"
        return
    mine, edge = quantities.parse(given[name]), quantities.parse(value)
    if (mine < edge) if bound == "minimum" else (mine > edge):
        yield f"{said}, but {kind} is {quantities.canonical(given[name])}"


def _of_containers(found: Object) -> list[Object]:
    return [one for one in found["spec"].get("limits", ()) if one.get("type") == "Container"]
