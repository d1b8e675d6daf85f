# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Water-filling: shares an organisation's power budget out to its hosts. Pure.

Every host first gets its idle power. The remaining watts go where they carry most work:
along the lower convex hulls of the hosts' curves, whose segments cost more and more watts for
the same work. All hosts thus end at the same price, as water in connected vessels does at the
same level; equally good hosts share evenly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from tf_malleable.model.power import PowerCurve, lower_hull


@dataclass(frozen=True)
class PowerHost:
    """A host that takes part in the sharing.

    Attributes:
        curve: Power by load.
        cpus: Number of CPUs; also the work at full load.
        weight: Weight of the host's work.
        active: True if the host has something to run; otherwise it gets its idle power only.
    """

    curve: PowerCurve
    cpus: int
    weight: float = 1.0
    active: bool = True


def water_fill(hosts: Mapping[str, PowerHost], watts: float) -> dict[str, float]:
    """Return the watts of each host; the sum does not exceed `watts`.

    If `watts` does not suffice for all hosts to be idle, each gets the same fraction of its idle
    power. Watts that no host can use are left over.
    """
    shares = {name: host.curve.idle for name, host in hosts.items()}
    need = sum(shares.values())
    if need > watts:
        return {name: part * max(0.0, watts) / need for name, part in shares.items()}
    left = watts - need
    # Price, in watts for an additional CPU of work, and the watts each host offers at it.
    offers: dict[float, dict[str, float]] = defaultdict(dict)
    for name, host in hosts.items():
        if not host.active or host.cpus <= 0 or host.weight <= 0:
            continue
        hull = lower_hull(host.curve.points)
        for (low, least), (high, most) in pairwise(hull):
            price = (most - least) / ((high - low) * host.cpus * host.weight)
            size = offers[price].get(name, 0.0) + most - least
            offers[price][name] = size
    for price in sorted(offers):
        sizes = offers[price]
        for name, part in _evenly(sizes, left).items():
            shares[name] += part
        left -= min(left, sum(sizes.values()))
        if left <= 0:
            break
    return shares


def with_floors(
    shares: Mapping[str, float], floors: Mapping[str, float], watts: float
) -> dict[str, float]:
    """Return shares of which none is below its floor.

    What is missing is first taken from watts that are left over, and then from the shares above
    their floors, from each the same fraction of what is above.

    Args:
        shares: Watts of each host, in all at most `watts`.
        floors: Minimum watts of each host, in all at most `watts`.
        watts: Watts to share out.
    """
    raised = {name: max(share, floors[name]) for name, share in shares.items()}
    excess = sum(raised.values()) - watts
    if excess <= 0:
        return raised
    above = sum(raised[name] - floors[name] for name in raised)
    return {
        name: share - (share - floors[name]) * min(1.0, excess / above)
        for name, share in raised.items()
    }


def _evenly(sizes: Mapping[str, float], watts: float) -> dict[str, float]:
    """Share watts evenly, no host getting more than its size."""
    parts: dict[str, float] = {}
    left = watts
    for count, name in zip(
        range(len(sizes), 0, -1), sorted(sizes, key=lambda each: (sizes[each], each)), strict=True
    ):
        parts[name] = min(sizes[name], left / count)
        left -= parts[name]
    return parts
