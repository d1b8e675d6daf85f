# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Hysteresis: makes changes of a plan that only measured speeds ask for if they are worth it. Pure.

Speeds are noisy, and policies rank trainings by them. A plan therefore rests on speeds that are
held until a plan by the newest ones would save more time than its changes cost. What else changes,
such as capacity, jobs or steps done, is followed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from tf_malleable.cluster.planning.cluster_job import ClusterJob, ClusterPlan, ClusterRate
from tf_malleable.cluster.planning.job_sizes import Sizes
from tf_malleable.model import Job, Shape
from tf_malleable.policies.queues.remaining_work import remaining_work
from tf_malleable.policies.queues.speedup import Curve, fit

Speeds = Mapping[str, tuple[ClusterRate, ...]]
"""Measured speeds by the trainings' ids."""
# Share of the remaining time that a change must save. Measured speeds err by 10 to 30 %.
_WORTH: Final = 0.15
# A change of more trainings than this is no flapping, and costly to evaluate.
_MOST_CHANGED: Final = 50


def held_speeds(jobs: Sequence[ClusterJob], known: Speeds) -> Speeds:
    """Return the speeds to plan with before new ones prove worth a change.

    With fewer than two sizes measured, a speed at a further one is news.

    Args:
        jobs: All trainings.
        known: Speeds that the last plan rested on.
    """
    held = {}
    for job in jobs:
        before = known.get(job.id, ())
        is_news = len(before) < 2 and len(job.rates) > len(before)
        held[job.id] = job.rates if is_news else before
    return held


def with_speeds(jobs: Sequence[ClusterJob], speeds: Speeds) -> list[ClusterJob]:
    """Return trainings with other speeds."""
    return [
        job if job.rates == speeds[job.id] else replace(job, rates=speeds[job.id]) for job in jobs
    ]


def steady_plan(
    jobs: Sequence[ClusterJob], known: Speeds, plan: Callable[[Sequence[ClusterJob]], ClusterPlan]
) -> tuple[ClusterPlan, Speeds]:
    """Return the plan and the speeds that it rests on.

    Args:
        jobs: All trainings, with the newest speeds.
        known: Speeds that the last plan rested on.
        plan: Returns a plan for trainings.
    """
    held = held_speeds(jobs, known)
    before = plan(with_speeds(jobs, held))
    if all(job.rates == held[job.id] for job in jobs):
        return before, held
    after = plan(jobs)
    if is_worth(jobs, before, after):
        return after, {job.id: job.rates for job in jobs}
    return before, held


def is_worth(jobs: Sequence[ClusterJob], before: ClusterPlan, after: ClusterPlan) -> bool:
    """Return whether a plan saves enough time to make its changes to another plan.

    The time is the sum over all trainings until their ends. Each training that gets other members
    stops for a pause.

    Args:
        jobs: All trainings, with the newest speeds.
        before: Plan that is in force.
        after: Plan that would replace it.
    """
    pauses, current, changed = 0.0, [], []
    for job in jobs:
        old, new = before.jobs[job.id], after.jobs[job.id]
        if (old.cpus, len(old.workers)) == (new.cpus, len(new.workers)):
            continue
        if len(old.workers) != len(new.workers):
            pauses += job.rescale_seconds
        sizes = Sizes(job)
        run = _run(job, sizes)
        current.append(replace(run, cpus=old.cpus))
        changed.append(replace(run, cpus=new.cpus))
    if len(current) > _MOST_CHANGED:
        return True
    seconds = _turnaround(current)
    return bool(current) and seconds - _turnaround(changed) - pauses > _WORTH * seconds


@dataclass(frozen=True)
class _Run:
    """A training to its end.

    Attributes:
        curve: Speed-up curve.
        left: Remaining work, in seconds on one core.
        most: Maximum CPUs that it can use.
        cpus: CPUs that it has.
    """

    curve: Curve
    left: float
    most: int
    cpus: int = 0

    @property
    def speed(self) -> float:
        """Seconds of work on one core that are done in a second."""
        return self.curve.speedup(self.cpus)

    @property
    def seconds(self) -> float:
        """Time to the end with these CPUs; infinite without any."""
        return self.left / self.speed if self.cpus else inf


def _run(job: ClusterJob, sizes: Sizes) -> _Run:
    seen = Job(
        job.id,
        Shape(1, 1, 1),
        job.submitted,
        run_seconds=job.run_seconds,
        steps_done=job.steps_done,
        steps_total=job.steps_total,
        rates=sizes.rates,
        expected_seconds=job.expected_seconds,
    )
    return _Run(fit(sizes.rates), remaining_work(seen), sizes.cap)


def _turnaround(runs: Sequence[_Run]) -> float:
    """Return the sum of the times until the ends; the shortest get what one that ends had."""
    rest, total, free = sorted(runs, key=lambda run: run.left), 0.0, 0
    while rest:
        shared = []
        for run in rest:
            more = max(0, min(free, run.most - run.cpus))
            free -= more
            shared.append(replace(run, cpus=run.cpus + more))
        first = min(shared, key=lambda run: run.seconds)
        if first.seconds == inf:
            return inf
        passed = first.seconds
        total += passed * len(shared)
        free += first.cpus
        rest = [
            replace(run, left=max(0.0, run.left - passed * run.speed))
            for run in shared
            if run is not first
        ]
    return total
