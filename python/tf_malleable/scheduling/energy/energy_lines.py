# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Attribution of energy: a host's joules, divided into lines that add up to them. Pure.

The consumption of the host without any load is a line of its own, as no job could have avoided
it. The rest is divided by CPU time, including that of other processes. GPUs are counted for the
jobs that have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tf_malleable.model.power import EnergySource

_WEAKEST_FIRST: tuple[EnergySource, ...] = ("estimated", "replayed", "measured")


def weaker(one: EnergySource | None, other: EnergySource) -> EnergySource:
    """Return the source of a sum of two values: no better than the worse of them."""
    return other if one is None else min(one, other, key=_WEAKEST_FIRST.index)


@dataclass(frozen=True)
class Energy:
    """Energy that a host has drawn in some time.

    Attributes:
        seconds: Length of that time.
        joules: Energy of the whole host, GPUs included.
        source: Origin of the value.
        gpus: Joules of each GPU that has a meter; included in `joules`.
    """

    seconds: float
    joules: float
    source: EnergySource
    gpus: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class EnergyLines:
    """A host's energy by consumer, in joules.

    Attributes:
        idle: Energy that the host would have drawn without any load.
        other: Energy of processes that are not jobs.
        jobs: Energy of each job, by id.
        source: Origin of the values.
    """

    idle: float
    other: float
    jobs: Mapping[str, float]
    source: EnergySource

    @property
    def total(self) -> float:
        """Energy of the whole host, in joules."""
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
        energy: Energy drawn.
        idle_watts: Power of the host without load, in watts, at least 0.
        busy_seconds: CPU time of all processes in that time. If it is less than that of the
            jobs, as clocks are read one after the other, the jobs' counts.
        job_seconds: CPU time of each job in that time; a negative value counts as 0.
        gpus: Job that has a GPU, by GPU number.
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
