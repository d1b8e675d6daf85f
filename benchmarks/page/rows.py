# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rows of the table, from samples. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.common.estimates import Estimate, estimate, median, percentile_99
from benchmarks.common.rows import Row, Target

# The 99th percentiles of few grants vary by more than a tenth even without viewers.
_UNCHANGED = 1.1
_RESAMPLES = 1000


def rows(samples: Mapping[str, Any]) -> list[Row]:
    """Return what is known of each measure that has samples."""
    made = []
    if drawn := samples.get("pixel"):
        made += [
            Row("pixel", "change to pixel, median", "ms", estimate([drawn])),
            Row("pixel", "99th percentile", "ms", estimate([drawn], percentile_99), Target(500)),
            Row("pixel", "longest", "ms", estimate([drawn], lambda found: float(np.max(found)))),
        ]
    if shares := samples.get("load"):
        made += _of_load({int(count): found for count, found in shares.items()})
    if taken := samples.get("grants"):
        made += _of_grants(taken)
    return made


def _of_load(shares: Mapping[int, Sequence[float]]) -> list[Row]:
    most = max(shares)
    made = [
        Row("load", f"tfm web with {count} viewers, of a core", "%", _percent(found))
        for count, found in shares.items()
    ]
    each = [(ten - none) / most for none, ten in zip(shares[0], shares[most], strict=True)]
    return [*made, Row("load", "for each viewer more", "%", _percent(each), Target(1.0))]


def _percent(shares: Sequence[float]) -> Estimate:
    return estimate([[100 * share for share in shares]])


def _of_grants(taken: Mapping[str, Sequence[Sequence[float]]]) -> list[Row]:
    made = []
    for way, name in (("without", "without viewers"), ("with", "with ten viewers")):
        found = taken[way]
        made += [
            Row("grants", f"{name}, median", "ms", estimate(found, median)),
            Row("grants", f"{name}, 99th percentile", "ms", estimate(found, percentile_99)),
        ]
    ratio = pooled_ratio(taken["with"], taken["without"])
    return [*made, Row("grants", "ratio of both percentiles", "ratio", ratio, Target(_UNCHANGED))]


def pooled_ratio(ours: Sequence[Sequence[float]], others: Sequence[Sequence[float]]) -> Estimate:
    """Return the ratio of the 99th percentiles of all samples, bootstrapped over pairs."""
    mine, theirs = np.asarray(ours, dtype=float), np.asarray(others, dtype=float)

    def ratio(pairs: np.ndarray) -> float:
        return percentile_99(mine[pairs].ravel()) / percentile_99(theirs[pairs].ravel())

    count = len(mine)
    drawn = np.random.default_rng(0).integers(count, size=(_RESAMPLES, count))
    low, high = np.percentile([ratio(pairs) for pairs in drawn], [2.5, 97.5])
    return Estimate(ratio(np.arange(count)), float(low), float(high), count)
