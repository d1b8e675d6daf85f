# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Says whose energy it was: a host's joules as lines that add up to them. Pure.

What a host draws without any load is a line of its own, as no job could have avoided it. What
it draws beyond that is divided by CPU time, including that of what is no job. GPUs are counted
for the jobs that have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tf_malleable.model.power import EnergySource

_WEAKEST_FIRST: tuple[EnergySource, ...] = ("estimated", "replayed", "measured")


def weaker(one: EnergySource | None, other: EnergySource) -> EnergySource:
    """Return what a sum of two values is: no better than the worse of them."""
    return other if one is None else min(one, other, key=_WEAKEST_FIRST.index)


@dataclass(frozen=True)
class Energy:
    """What a host has drawn in some time.

    Attributes:
        seconds: Length of that time.
        joules: The whole host's, GPUs included.
        source: Where the value is from.
        gpus: Joules of each GPU that has a meter; included in `joules`.
    """

    seconds: float
    joules: float
    source: EnergySource
    gpus: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EnergyLines:
    """Who has drawn a host's energy, in joules.

    Attributes:
        idle: What the host would have drawn without any load.
        other: What is no job.
        jobs: Each job, by id.
        source: Where the values are from.
    """

    idle: float
    other: float
    jobs: Mapping[str, float]
    source: EnergySource

    @property
    def total(self) -> float:
        """The whole host's."""
        return self.idle + self.other + sum(self.jobs.values())


def attribute(
    energy: Energy,
    idle_watts: float,
    busy_seconds: float,
    job_seconds: Mapping[str, float],
    gpus: Mapping[int, str] | None = None,
) -> EnergyLines:
    """Return a host's energy as lines that add up to it.

    Args:
        energy: What was drawn.
        idle_watts: What the host draws without load, at 0 or above.
        busy_seconds: CPU time of everything in that time. Where it is less than that of the
            jobs, as clocks are read one after the other, theirs counts.
        job_seconds: CPU time of each job in that time; a negative one counts as none.
        gpus: The job that has a GPU, by number.
    """
    given = {job: max(0.0, seconds) for job, seconds in job_seconds.items()}
    by_gpu = {gpu: max(0.0, joules) for gpu, joules in energy.gpus.items()}
    joules = max(0.0, energy.joules)
    on_gpus = sum(by_gpu.values())
    if on_gpus > joules:  # Two meters disagree; no line may be negative.
        by_gpu = {gpu: part * joules / on_gpus for gpu, part in by_gpu.items()}
        on_gpus = joules
    idle = min(joules - on_gpus, idle_watts * energy.seconds)
    active = joules - on_gpus - idle
    whole = max(busy_seconds, sum(given.values()))
    shares = {job: active * seconds / whole if whole > 0 else 0.0 for job, seconds in given.items()}
    other = active - sum(shares.values())
    for gpu, part in by_gpu.items():
        owner = (gpus or {}).get(gpu)
        if owner is None or owner not in shares:
            other += part
        else:
            shares[owner] += part
    return EnergyLines(idle, other, shares, energy.source)
