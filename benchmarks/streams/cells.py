# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Settings of streams: 90 of a grid, any number drawn from a wide space, and some of traces."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

from tf_malleable.simulate.engine.task import Task
from tf_malleable.simulate.engine.workload import Assumed
from tf_malleable.simulate.workloads.generate import generate

# TensorFlow's import, on one core.
STARTUP_SECONDS: Final = 5.0
# Number of drawn cells, and the seed of the first one.
DRAWN: Final = 60
_FIRST: Final = 1
_JOBS: Final = 200
# Mean run time in seconds, and standard deviation of its logarithm.
_RUN_TIMES: Final = {
    # 83,152 above 0 in cluster-trace-gpu-v2020/analysis/philly_runtime.csv of
    # github.com/alibaba/clusterdata.
    "Philly's": (14614, 2.18),
    # 1,580,464 jobs with GPUs have a median of 206 s, as helios_cluster_summary.csv of
    # github.com/S-Lab-System-Group/HeliosArtifact says: σ² = 2 ln(mean / median).
    "Helios'": (6652, 2.64),
    # 7,255 pods that were scheduled and deleted in cluster-trace-gpu-v2023/csv/
    # openb_pod_list_default.csv of github.com/alibaba/clusterdata.
    "Alibaba's": (28949, 1.88),
    # 10,000 jobs in the Standard Workload Format, made by the model that Lublin and Feitelson
    # fitted to three logs ("The workload on parallel supercomputers", 2003): data/lublin_256.swf of
    # github.com/DIR-LAB/deep-batch-scheduler.
    "Lublin's": (4863, 3.02),
}
KINDS: Final = ("bursts", "daily", "256 cores", "mixed curves", "users", "silent", "noisy", "plain")


@dataclass(frozen=True)
class Cell:
    """A setting; with a seed it makes a stream.

    Attributes:
        name: Name, in a table.
        spec: Workload, as in `tfm simulate --generate`.
        cores: Number of cores.
        starting: Seconds before the first step, on one core.
        reports: Whether jobs report steps.
        noise: Standard deviation of the logarithm of a job's speed with a number of cores.
    """

    name: str
    spec: str
    cores: int
    starting: float = 0.0
    reports: bool = True
    noise: float = 0.0

    def tasks(self, seed: int) -> tuple[Task, ...]:
        """Return the jobs of the stream with this seed."""
        assumed = Assumed(starting=self.starting, steps=100.0 if self.reports else None)
        return generate(self.spec, self.cores, seed, assumed).tasks


def grid() -> Iterator[Cell]:
    """Yield 90 cells: sizes, load, maximum of a job's cores, serial part, and machine."""
    for cores, serial, most, sizes, load in product(
        (16, 64), (0.05, 0.3), (4, 16, 64), ("exponential", "lognormal", "pareto"), (0.5, 0.8, 1.0)
    ):
        if most <= cores:
            yield Cell(
                f"{cores} cores, {serial:g} serial, max {most}, {sizes}, load {load:g}",
                f"jobs={_JOBS},load={load:g},sizes={sizes},mean=600,max-cores={most},"
                f"curves=amdahl:{serial:g}",
                cores,
            )


def traces() -> Iterator[Cell]:
    """Yield cells whose jobs are as long as those of public traces."""
    for (name, (mean, sigma)), cores, load in product(_RUN_TIMES.items(), (16, 64), (0.5, 0.8)):
        yield Cell(
            f"{name} run times, {cores} cores, load {load:g}",
            f"jobs={_JOBS},load={load:g},sizes=lognormal,sigma={sigma},mean={mean},max-cores=8,"
            "curves=amdahl:0.05",
            cores,
        )


def drawn(seed: int, jobs: int = _JOBS) -> Cell:
    """Return a cell of the wide space; the same arguments give the same cell.

    Args:
        seed: Random seed; successive seeds have the kinds in turn.
        jobs: Number of jobs.
    """
    rng = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    cores = 256 if kind == "256 cores" else rng.choice((4, 8, 16, 32, 64))
    most = 2 ** rng.randint(1, cores.bit_length() - 1)
    curves = [f"amdahl:{_serial(rng):.2g}" for _ in range(4 if kind == "mixed curves" else 1)]
    sizes = rng.choice(
        ("exponential", f"lognormal,sigma={rng.uniform(0.5, 2.0):.2g}", "pareto,alpha=1.5")
    )
    load = rng.uniform(0.4, 1.1)
    # A minute to some hours on one core.
    mean = 60.0 * 100.0 ** rng.random()
    arrivals = kind if kind in ("bursts", "daily") else "poisson"
    spec = (
        f"jobs={jobs},load={load:.2g},arrivals={arrivals},sizes={sizes},mean={mean:.0f},"
        f"max-cores={most},curves={'|'.join(curves)},users={5 if kind == 'users' else 1}"
    )
    return Cell(
        f"{seed}: {kind}, {cores} cores",
        spec,
        cores,
        rng.choice((0.0, STARTUP_SECONDS)),
        kind != "silent",
        0.05 if kind == "noisy" else 0.0,
    )


def cells() -> dict[str, Cell]:
    """Return the cells of the published tables, by name."""
    more = (drawn(seed) for seed in range(_FIRST, _FIRST + DRAWN))
    return {cell.name: cell for cell in (*grid(), *more, *traces())}


def _serial(rng: random.Random) -> float:
    return float(0.01 * 50.0 ** rng.random())
