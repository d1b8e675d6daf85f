# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How policies fared with a workload, relative to the best static alternative. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Final

from benchmarks.tournament.works import Work, makespan, mean_turnaround
from tf_malleable.api.schema.history import JobRecord
from tf_malleable.scheduling.records.metrics import BOUND_SECONDS

# No worse than the best static alternative, in makespan and in mean turnaround.
TOLERANCES: Final = (1.02, 1.05)


@dataclass(frozen=True)
class Fared:
    """How a policy fared with a workload on a number of cores.

    Attributes:
        policy: The policy.
        workload: Name of the workload.
        cores: Number of cores.
        makespan: Divided by the least of all static alternatives.
        turnaround: The mean, divided by the least of all static alternatives.
        slowdown: The worst bounded slowdown of a job: its turnaround divided by the time it
            would take alone, or by 10 s if that is more.
        moves: Changes of the number of cores while it ran, per job and hour.
    """

    policy: str
    workload: str
    cores: int
    makespan: float
    turnaround: float
    slowdown: float
    moves: float

    @property
    def is_good(self) -> bool:
        """Whether no static alternative is much better."""
        return self.makespan <= TOLERANCES[0] and self.turnaround <= TOLERANCES[1]


def fared(
    policy: str,
    workload: str,
    cores: int,
    works: Sequence[Work],
    found: Mapping[str, JobRecord],
    static: Mapping[str, tuple[float, float]],
) -> Fared:
    """Return how a policy fared.

    Args:
        policy: The policy.
        workload: Name of the workload.
        cores: Number of cores.
        works: Its jobs.
        found: What became of them, by name.
        static: Makespan and mean turnaround of static alternatives.
    """
    spans, turnarounds = zip(*static.values(), strict=True)
    hours = sum(record.service_seconds for record in found.values()) / 3600
    return Fared(
        policy,
        workload,
        cores,
        makespan(dict(found)) / min(spans),
        mean_turnaround(dict(found)) / min(turnarounds),
        max(found[work.id].total_seconds / max(BOUND_SECONDS, work.alone(cores)) for work in works),
        sum(record.resizes for record in found.values()) / hours,
    )


@dataclass(frozen=True)
class Standing:
    """How a policy fared with all workloads.

    Attributes:
        policy: The policy.
        good: In how many cases no static alternative was much better.
        cases: In how many cases it took part.
        makespan: Geometric mean of the ratios.
        worst_makespan: The largest.
        turnaround: Geometric mean of the ratios.
        worst_turnaround: The largest.
        worst_slowdown: Of any job.
        moves: The most moves per job and hour in a case.
    """

    policy: str
    good: int
    cases: int
    makespan: float
    worst_makespan: float
    turnaround: float
    worst_turnaround: float
    worst_slowdown: float
    moves: float


def standings(found: Sequence[Fared]) -> list[Standing]:
    """Return the policies, the best first: most good cases, then the least product of means."""
    policies = dict.fromkeys(each.policy for each in found)
    made = []
    for policy in policies:
        mine = [each for each in found if each.policy == policy]
        made.append(
            Standing(
                policy,
                sum(each.is_good for each in mine),
                len(mine),
                geometric_mean(each.makespan for each in mine),
                max(each.makespan for each in mine),
                geometric_mean(each.turnaround for each in mine),
                max(each.turnaround for each in mine),
                max(each.slowdown for each in mine),
                max(each.moves for each in mine),
            )
        )
    return sorted(made, key=lambda each: (-each.good, math.log(each.makespan * each.turnaround)))


def table(found: Sequence[Standing]) -> str:
    """Return the standings as a Markdown table."""
    lines = [
        "| policy | good cases | makespan | worst | mean turnaround | worst | worst slowdown"
        " | moves a job and hour |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| `{each.policy}` | {each.good} of {each.cases} | {each.makespan:.3f} |"
        f" {each.worst_makespan:.2f} | {each.turnaround:.3f} | {each.worst_turnaround:.2f} |"
        f" {each.worst_slowdown:.1f} | {each.moves:.0f} |"
        for each in found
    ]
    return "\n".join(lines)
