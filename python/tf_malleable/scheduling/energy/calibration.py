# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Fit of a host's power curve to a few measurements. Pure.

The curve is linear between points. Servers draw neither in proportion to their load nor linearly:
the first cores cost most, and so do the last ones where the clock rises (Barroso and Hölzle,
"The Case for Energy-Proportional Computing", Computer 2007). Measured points are therefore kept,
and only noise that would make more load draw less is smoothed out.
"""

from __future__ import annotations

from collections.abc import Iterable

from tf_malleable.model.power import PowerCurve


def fit(points: Iterable[tuple[float, float]]) -> PowerCurve:
    """Return the non-decreasing curve that is closest to the points (least squares).

    Args:
        points: Pairs of load and watts, in any order; equal loads are averaged. There must be
            one at most a tenth from idle and one at most a tenth from full load; the curve is
            extrapolated to these in a straight line.

    Raises:
        ValueError: There are too few points, or one is invalid; the message says which.
    """
    known: dict[float, list[float]] = {}
    for load, watts in points:
        if not 0 <= load <= 1:
            raise ValueError(f"a load must be from 0 to 1, not {load}")
        if not watts >= 0:
            raise ValueError(f"watts must be 0 or more, not {watts}")
        known.setdefault(load, []).append(watts)
    loads = sorted(known)
    if len(loads) < 2 or loads[0] > 0.1 or loads[-1] < 0.9:
        raise ValueError("a calibration needs measurements at idle and at full load")
    # Pool adjacent violators: each block has a mean, a weight, and a number of loads.
    blocks: list[tuple[float, float, int]] = []
    for load in loads:
        values = known[load]
        block = sum(values) / len(values), float(len(values)), 1
        while blocks and blocks[-1][0] > block[0]:
            mean, weight, count = blocks.pop()
            both = weight + block[1]
            block = (mean * weight + block[0] * block[1]) / both, both, count + block[2]
        blocks.append(block)
    fitted = [mean for mean, _, count in blocks for _ in range(count)]
    pairs = list(zip(loads, fitted, strict=True))
    if pairs[0][0] > 0:
        pairs.insert(0, (0.0, max(0.0, _extended(pairs[0], pairs[1], 0.0))))
    if pairs[-1][0] < 1:
        pairs.append((1.0, _extended(pairs[-2], pairs[-1], 1.0)))
    return PowerCurve(tuple(pairs))


def _extended(one: tuple[float, float], other: tuple[float, float], load: float) -> float:
    slope = (other[1] - one[1]) / (other[0] - one[0])
    return one[1] + slope * (load - one[0])
