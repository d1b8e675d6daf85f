# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Generator of workloads: jobs at random times, with random work.

Arrivals are a Poisson process, unless the specification says otherwise. The time is chosen such
that the offered load, which is all work on one core relative to the capacity of the cores
meanwhile, is exactly the requested one.
"""

from __future__ import annotations

import random
from typing import Final

from tf_malleable.model import Shape
from tf_malleable.simulate.engine.curves import parse_curve
from tf_malleable.simulate.engine.task import Task
from tf_malleable.simulate.engine.workload import Assumed, Workload
from tf_malleable.simulate.workloads.arrivals import arrive
from tf_malleable.simulate.workloads.assumptions import about_curve, about_phases
from tf_malleable.simulate.workloads.sizes import drawing
from tf_malleable.simulate.workloads.spec import Spec, parse_spec

# Seconds on one core from one wait for input to the next.
_CYCLE: Final = 60.0


def generate(spec: str, cores: int, seed: int, assumed: Assumed) -> Workload:
    """Return a workload; the same arguments give the same workload.

    Args:
        spec: Specification, as in parse_spec().
        cores: Number of cores that the load refers to.
        seed: Random seed.
        assumed: Assumptions about what `spec` does not say of the jobs. The steps are those of a
            job of mean work; a job of twice the work has twice as many.

    Raises:
        ValueError: The text or the number of cores is invalid; the message is one sentence.
    """
    if cores < 1:
        raise ValueError(f"a workload must be generated for at least 1 core, not {cores}")
    wanted = parse_spec(spec)
    rng = random.Random(seed)
    draw = drawing(wanted)
    works = [draw(rng) for _ in range(wanted.jobs)]
    arrivals, covered = arrive(wanted.arrivals, wanted.jobs, rng)
    scale = sum(works) / (wanted.load * cores * covered)
    jobs = _Jobs(wanted, cores, assumed, rng)
    tasks = tuple(
        jobs.task(number, at * scale, work)
        for number, (at, work) in enumerate(zip(arrivals, works, strict=True), 1)
    )
    return Workload("generated", tasks, assumed=_sentences(wanted, assumed))


class _Jobs:
    def __init__(self, wanted: Spec, cores: int, assumed: Assumed, rng: random.Random) -> None:
        most = wanted.max_cores or cores
        self._wanted = wanted
        self._assumed = assumed
        self._rng = rng
        self._shape = Shape(1 if assumed.malleable else most, most, most)
        self._curves = [(text, parse_curve(text)) for text in wanted.curves] or [
            (assumed.curve_text, assumed.curve)
        ]
        self._users = [f"user{number}" for number in range(1, wanted.users + 1)]

    def task(self, number: int, at: float, work: float) -> Task:
        """Return a job; those with the same curve are runs of the same program."""
        wanted, steps = self._wanted, self._assumed.steps
        name, curve = self._rng.choice(self._curves)
        return Task(
            name,
            at,
            work,
            curve,
            self._shape,
            (name, str(number)),
            self._rng.choice(self._users),
            steps=None if steps is None else steps * work / wanted.mean,
            starting=self._assumed.starting,
            busy=_CYCLE * (1 - wanted.idle),
            idle=_CYCLE * wanted.idle,
        )


def _sentences(wanted: Spec, assumed: Assumed) -> tuple[str, ...]:
    start, waiting, steps = about_phases(assumed)
    if wanted.idle:
        busy, idle = _CYCLE * (1 - wanted.idle), _CYCLE * wanted.idle
        waiting = f"every job waits {idle:g} s for input after each {busy:g} s of work on one core"
    if assumed.steps is not None:
        steps = f"a job of mean work reports {assumed.steps:g} steps, others in proportion"
    curve = () if wanted.curves else (about_curve(assumed),)
    return (*curve, "jobs with the same curve run the same program", start, waiting, steps)
