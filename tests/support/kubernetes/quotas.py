# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""ResourceQuotas: what is used of them, and who may no longer be admitted."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from tests.support.kubernetes import pods, quantities

Object = dict[str, Any]


def cost(pod: Object) -> dict[str, Fraction]:
    """Return what a pod uses of quotas; nothing once it has ended."""
    if not pods.is_live(pod):
        return {"count/pods": Fraction(1)}
    used = {"pods": Fraction(1), "count/pods": Fraction(1)}
    for container in pod["spec"]["containers"]:
        for kind in ("requests", "limits"):
            for name, quantity in container.get("resources", {}).get(kind, {}).items():
                names = [f"{kind}.{name}"] + ([name] if kind == "requests" else [])
                for each in names:
                    used[each] = used.get(each, Fraction(0)) + quantities.parse(quantity)
    return used


def total(found: Iterable[Object]) -> dict[str, Fraction]:
    """Return what pods use of quotas together."""
    used: dict[str, Fraction] = {}
    for pod in found:
        for name, value in cost(pod).items():
            used[name] = used.get(name, Fraction(0)) + value
    return used


def status(quota: Object, used: dict[str, Fraction]) -> Object:
    """Return a quota's status."""
    hard = {k: quantities.canonical(v) for k, v in quota["spec"].get("hard", {}).items()}
    return {
        "hard": hard,
        "used": {name: quantities.written(used.get(name, Fraction(0))) for name in hard},
    }


def refusal(
    quota: Object, pod: Object, before: dict[str, Fraction], others: dict[str, Fraction]
) -> str | None:
    """Return why a quota does not admit a pod; None if it does.

    Args:
        quota: The quota.
        pod: The pod, as it would be.
        before: What it has used so far.
        others: What all others use.
    """
    wanted, hard = cost(pod), quota["spec"].get("hard", {})
    name = quota["metadata"]["name"]
    missing = [
        kind
        for kind in hard
        if kind.split(".")[0] in ("requests", "limits", "cpu", "memory") and kind not in wanted
    ]
    if missing:
        where = ",".join(container["name"] for container in pod["spec"]["containers"])
        return f"failed quota: {name}: must specify {', '.join(missing)} for: {where}"
    over = [
        kind
        for kind, limit in hard.items()
        if wanted.get(kind, 0) > before.get(kind, 0)
        and wanted[kind] + others.get(kind, 0) > quantities.parse(limit)
    ]
    if not over:
        return None

    def listed(values: dict[str, Any]) -> str:
        return ",".join(
            f"{kind}={quantities.written(Fraction(values.get(kind, 0)))}" for kind in sorted(over)
        )

    delta = {kind: wanted[kind] - before.get(kind, 0) for kind in over}
    used = {kind: others.get(kind, Fraction(0)) + before.get(kind, 0) for kind in over}
    limits = {kind: quantities.parse(hard[kind]) for kind in over}
    return (
        f"exceeded quota: {name}, requested: {listed(delta)}, "
        f"used: {listed(used)}, limited: {listed(limits)}"
    )
