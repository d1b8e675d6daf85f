# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Named workloads for machines of any size, to compare policies by.

Work and arrivals grow with the machine, so that it is about as busy with any number of
cores. All are the same each time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from benchmarks.tournament.works import Work
from tf_malleable.model import Shape

# TensorFlow's import, on one core.
STARTUP_SECONDS: Final = 5.0
SIZES: Final = (2, 4, 8, 16, 64, 256)


def _job(name: str, cores: int, arrival: float, seconds: float, serial: float) -> Work:
    """Return a job that takes these seconds on one core of two, and scales with the machine."""
    return _started(Work(name, arrival, seconds * cores / 2, serial, Shape(1, cores, cores)))


def _started(work: Work) -> Work:
    """Return the job as one that imports TensorFlow first."""
    return replace(work, startup=STARTUP_SECONDS)


def alike(cores: int) -> list[Work]:
    """Five alike at once: what sharing is for."""
    return [_job(f"alike {n}", cores, 0.0, 30.0, _serial(cores, 0.1)) for n in range(5)]


def long_beside_short(cores: int) -> list[Work]:
    """One that is long and scales perfectly, and short ones of unknown scaling."""
    long = _job("long", cores, 0.0, 200.0, 0.0)
    return [
        replace(long, known=_powers(cores)),
        *(_job(f"short {n}", cores, 5.0 + 20.0 * n, 8.0, _serial(cores, 0.1)) for n in range(6)),
    ]


def poor_beside_good(cores: int) -> list[Work]:
    """Half of them hardly scale, and that is known."""
    return [
        _started(Work(f"poor {n}", 0.0, 60.0, 0.9, Shape(1, cores, cores), known=_powers(cores)))
        if n % 2
        else replace(_job(f"good {n}", cores, 0.0, 40.0, 0.0), known=_powers(cores))
        for n in range(6)
    ]


def ragged(cores: int) -> list[Work]:
    """One far longer than the others, which a static split leaves alone at the end."""
    return [
        _job(f"ragged {n}", cores, 0.0, seconds, _serial(cores, 0.1))
        for n, seconds in enumerate([120.0, 15.0, 15.0, 15.0, 15.0])
    ]


def heavy_tailed(cores: int) -> list[Work]:
    """Many short and a few long ones, at random times; nothing is known of them."""
    rng = random.Random(1)
    return [
        _job(
            f"random {n}",
            cores,
            rng.uniform(0.0, 200.0),
            min(200.0, 4.0 * rng.paretovariate(1.1)),
            _serial(cores, rng.choice([0.02, 0.1, 0.3])),
        )
        for n in range(16)
    ]


def again(cores: int) -> list[Work]:
    """The same ones, whose run times and speeds are known from earlier runs."""
    return [replace(work, foreseen=True, known=_powers(cores)) for work in heavy_tailed(cores)]


def silent(cores: int) -> list[Work]:
    """The same ones, which report no steps."""
    return [replace(work, reports=False) for work in heavy_tailed(cores)]


def one_core_jobs(cores: int) -> list[Work]:
    """Twice as many jobs of one core as there are cores, and one that can use them all."""
    return [
        _job("wide", cores, 0.0, 40.0, _serial(cores, 0.1)),
        *(_started(Work(f"small {n}", 1.0, 20.0, 0.0, Shape(1, 1, 1))) for n in range(2 * cores)),
    ]


def naps(cores: int) -> list[Work]:
    """Jobs that wait for input now and then."""
    return [
        replace(
            _job(f"nap {n}", cores, 0.1 * n, 120.0, _serial(cores, 0.1)),
            idle=5.0,
            busy=5.0 * cores / 2,
        )
        for n in range(4)
    ]


def bursts(cores: int) -> list[Work]:
    """Everybody starts something after a meeting."""
    rng = random.Random(2)
    return [
        _job(
            f"burst {meeting} {n}",
            cores,
            90.0 * meeting + 0.5 * n,
            rng.uniform(4.0, 30.0),
            _serial(cores, 0.1),
        )
        for meeting in range(3)
        for n in range(6)
    ]


def constrained(cores: int) -> list[Work]:
    """Jobs that need half the machine or all of it; others can use a core or a quarter."""
    shapes = [
        Shape(max(1, cores // 2), cores, cores),
        Shape(1, 1, 1),
        Shape(1, max(1, cores // 4), max(1, cores // 4)),
        Shape(cores, cores, cores),
    ]
    return [
        replace(
            _job(f"constrained {n}", cores, 6.0 * n, 15.0, _serial(cores, 0.1)),
            shape=shapes[n % 4],
            seconds=15.0 * shapes[n % 4].max / 2,
        )
        for n in range(12)
    ]


def prioritised(cores: int) -> list[Work]:
    """The same as at random times, every third of them urgent."""
    return [
        replace(work, priority=10 if n % 3 == 0 else 0)
        for n, work in enumerate(heavy_tailed(cores))
    ]


def liars(cores: int) -> list[Work]:
    """The same; a third says it has a fifth of its steps, and a third five times as many."""
    return [
        replace(work, told=(1.0, 0.2, 5.0)[n % 3]) for n, work in enumerate(heavy_tailed(cores))
    ]


def noisy(cores: int) -> list[Work]:
    """The same, faster or slower than their curves with each number of cores."""
    return [replace(work, noise=0.1) for work in heavy_tailed(cores)]


CORPUS: Final[Mapping[str, Callable[[int], Sequence[Work]]]] = {
    each.__name__: each
    for each in (
        alike,
        long_beside_short,
        poor_beside_good,
        ragged,
        heavy_tailed,
        again,
        silent,
        one_core_jobs,
        naps,
        bursts,
        constrained,
        prioritised,
        liars,
        noisy,
    )
}


def _powers(cores: int) -> tuple[int, ...]:
    """Return 1, 2, 4 … up to a number of cores."""
    return tuple(2**n for n in range(cores.bit_length()) if 2**n <= cores)


def _serial(cores: int, part: float) -> float:
    """Return the serial part with which jobs scale as far as one of this part on two cores.

    With the same part on any machine no job could use many cores.
    """
    return part * 2 / cores
