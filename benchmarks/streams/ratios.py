# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Ratios of policies, paired by the seed of the stream, with 95 % intervals. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Final

import numpy as np

from benchmarks.common.estimates import Estimate, estimate

MEASURES: Final = ("turnaround", "makespan", "slowdown")


@dataclass(frozen=True)
class Fared:
    """How a stream fared under a policy.

    Attributes:
        turnaround: Mean turnaround, in seconds.
        makespan: Makespan, in seconds.
        slowdown: 99th percentile of the turnaround divided by the time that the job would take
            alone, or by 10 s if that is more.
    """

    turnaround: float
    makespan: float
    slowdown: float


def paired(ours: Sequence[float], others: Sequence[float]) -> Estimate:
    """Return the geometric mean of the ratios of two policies, bootstrapped over streams.

    Args:
        ours: Values above 0 of one policy, a stream each.
        others: Those of the other policy with the same streams.
    """
    ratios = [[one / other] for one, other in zip(ours, others, strict=True)]
    return estimate(ratios, lambda samples: float(np.exp(np.log(samples).mean())))


Runs = Mapping[str, Mapping[str, Mapping[int, Fared]]]
"""How each stream fared: by cell, by policy and by seed."""


Ratios = Mapping[str, Mapping[str, Mapping[str, Estimate]]]
"""Ratios by cell, policy and measure."""


def compare(runs: Runs, base: str) -> dict[str, dict[str, dict[str, Estimate]]]:
    """Return the ratios to one of the policies, by cell, policy and measure.

    Only seeds that were run with both policies count.
    """
    found: dict[str, dict[str, dict[str, Estimate]]] = {}
    for cell, policies in runs.items():
        for policy, seeds in policies.items():
            both = sorted(seeds.keys() & policies.get(base, {}).keys())
            if both:
                found.setdefault(cell, {})[policy] = {
                    measure: paired(
                        [getattr(seeds[seed], measure) for seed in both],
                        [getattr(policies[base][seed], measure) for seed in both],
                    )
                    for measure in MEASURES
                }
    return found


def means(
    found: Mapping[str, Mapping[str, Mapping[str, Estimate]]], policy: str
) -> dict[str, float]:
    """Return the geometric mean over all cells of a policy, by measure."""
    each = [ratios[policy] for ratios in found.values() if policy in ratios]
    return {measure: geometric_mean(one[measure].value for one in each) for measure in MEASURES}


def table(runs: Runs, base: str) -> str:
    """Return a Markdown table: a line for each cell, and the means of all cells at the end."""
    found = compare(runs, base)
    policies = list(dict.fromkeys(name for each in found.values() for name in each if name != base))
    lines = [
        f"| relative to {base} | {' | '.join(policies)} |",
        f"| --- |{' --- |' * len(policies)}",
    ]
    for cell, ratios in found.items():
        shown = [_shown(ratios[policy]) if policy in ratios else "–" for policy in policies]
        lines.append(f"| {cell} | {' | '.join(shown)} |")
    every = [means(found, policy) for policy in policies]
    shown = [" / ".join(f"{value:.3f}" for value in each.values()) for each in every]
    lines.append(f"| geometric mean | {' | '.join(shown)} |")
    return "\n".join(lines)


def _shown(ratios: Mapping[str, Estimate]) -> str:
    first, second, third = (ratios[measure] for measure in MEASURES)
    inside = f"{first.low:.3f} – {first.high:.3f}"
    return f"{first.value:.3f} [{inside}] / {second.value:.3f} / {third.value:.2f}"
