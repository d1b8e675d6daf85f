# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Ratios of policies, paired by the seed of the stream, with 95 % intervals. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Final

from benchmarks.common.estimates import Estimate, geometric_ratio

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


def mean_ratio(ours: Sequence[Fared], others: Sequence[Fared], measure: str) -> Estimate:
    """Return the geometric mean of the ratios of a measure, bootstrapped over streams.

    Args:
        ours: How streams fared under one policy.
        others: How the same streams, in the same order, fared under another.
        measure: One of `MEASURES`.
    """
    return geometric_ratio(
        [getattr(each, measure) for each in ours], [getattr(each, measure) for each in others]
    )


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
                    measure: mean_ratio(
                        [seeds[seed] for seed in both],
                        [policies[base][seed] for seed in both],
                        measure,
                    )
                    for measure in MEASURES
                }
    return found


def against_best(
    runs: Runs, policy: str, others: Collection[str]
) -> dict[str, dict[str, Estimate]]:
    """Return a policy's ratios, by cell and measure, to the best of others in that very cell.

    Args:
        runs: How each stream fared. Only seeds that were run with all these policies count.
        policy: The policy.
        others: Those that are compared; a cell that lacks one is left out.
    """
    found: dict[str, dict[str, Estimate]] = {}
    for cell, policies in runs.items():
        every = [policies.get(name, {}) for name in (policy, *others)]
        seeds = sorted(set.intersection(*(set(each) for each in every)))
        if not seeds:
            continue
        found[cell] = {}
        for measure in MEASURES:
            ours, *theirs = [[getattr(each[seed], measure) for seed in seeds] for each in every]
            found[cell][measure] = geometric_ratio(ours, min(theirs, key=geometric_mean))
    return found


def summary(against: Mapping[str, Mapping[str, Mapping[str, Estimate]]]) -> str:
    """Return a Markdown table of means and highest cells, for turnaround and makespan.

    Args:
        against: Ratios by what they are relative to, cell and measure.
    """
    lines = [
        "| relative to | cells | turnaround | highest | makespan | highest |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, cells in against.items():
        shown = []
        for measure in ("turnaround", "makespan"):
            ratios = [ratios[measure] for ratios in cells.values()]
            top = max(ratios, key=lambda ratio: ratio.value)
            shown += [
                f"{geometric_mean(ratio.value for ratio in ratios):.3f}",
                f"{top.value:.3f} [{top.low:.3f} – {top.high:.3f}]",
            ]
        lines.append(f"| {name} | {len(cells)} | {' | '.join(shown)} |")
    return "\n".join(lines)


def by_cell(
    against: Mapping[str, Mapping[str, Mapping[str, Estimate]]],
    columns: Sequence[tuple[str, str]],
) -> str:
    """Return a Markdown table with a line for each cell.

    Args:
        against: Ratios by what they are relative to, cell and measure.
        columns: What the ratios of a column are relative to, and of what measure they are; the
            first has intervals.
    """
    lines = [
        f"| setting | {' | '.join(f'{measure} / {name}' for name, measure in columns)} |",
        f"| --- |{' --- |' * len(columns)}",
    ]
    for cell in dict.fromkeys(cell for cells in against.values() for cell in cells):
        found = [against[name].get(cell, {}).get(measure) for name, measure in columns]
        shown = ["–" if ratio is None else f"{ratio.value:.3f}" for ratio in found]
        if found[0] is not None:
            shown[0] += f" [{found[0].low:.3f}, {found[0].high:.3f}]"
        lines.append(f"| {cell} | {' | '.join(shown)} |")
    return "\n".join(lines)


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
