# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Cores go where they speed up most, as far as that was measured."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from statistics import median_low

from tf_malleable.model import Job
from tf_malleable.policies.counting import CountingPolicy, Decision, present
from tf_malleable.policies.orders import Fcfs, Rank
from tf_malleable.policies.queueing import QueueingPolicy
from tf_malleable.policies.sharing import Sharing
from tf_malleable.policies.speedup import Curve, fit

# A core changes hands only for this much more, or noise would move it to and fro.
_STICKY = 1.1
_POOR_GAIN = 0.5
_HEAD_START_SECONDS = 600.0
# Seconds of waiting that make up for a second of run time. With 3 jobs that came within
# half a minute are served nearly as by the shortest first; in simulations of 16 jobs
# more than 3 shortened their turnaround by another 2 % at most.
_AGEING = 3.0
_REVIEW_SECONDS = 2.0


class EfficientPolicy(CountingPolicy):
    """Cores go, one at a time, where the next one adds most to a job's speed-up.

    Greedy is optimal as speed-up curves are concave. A curve is fitted to the
    speeds a job was seen to have, see `speedup.fit`. As long as others can use the
    cores for sure a job goes only a little above the most cores it was measured
    with: 1, 2, 3, 4, 6, 9 … What nobody can use for sure, anyone may try. Of the
    jobs measured with only one number of cores every second one gets a quarter
    more, at least 1, at the cost of the rest: after that, all have curves. Jobs of
    which nothing is measured, for they are new or report no steps, are taken to
    scale well, so that they get about as much as from equipartition.

    As many run as fit with min; none is paused. Short jobs start first: each second
    that a job will run, as the same command ran before, counts as having come three
    seconds later. So do, ten minutes' worth, jobs known to scale poorly, for those that
    scale can use all of the machine at the end alone. A job thus waits for none that
    comes later than three times its own run time, and ten minutes, after it. Where no
    run time is known it is first come, first served; beside jobs of known run time a
    new command is taken to run for their median. (Serving the shortest first is best for
    the mean: Smith, "Various optimizers for single-stage production", 1956. Run times
    recur because jobs do: Weng et al., "MLaaS in the Wild", NSDI 2022.)

    Work-conserving: no core is idle while the next in the queue would fit or a
    running job below max is expected to be faster with it. Starves nobody.
    """

    def decide(self, jobs: Sequence[Job], cores: int, now: float) -> Decision:
        """Return how many of so many cores each job gets."""
        order = ShortestJobFirst(_usual_seconds(jobs))
        decision = QueueingPolicy(order, ByGain()).decide(jobs, cores, now)
        trying = any(
            job.steps_done is not None
            and all(rate.cores != decision.cores[job.id] for rate in job.rates)
            for job in jobs
            if job.id in decision.cores
        )
        return Decision(decision.cores, now + _REVIEW_SECONDS if trying else None)


class ShortestJobFirst(Fcfs):
    """Shortest job first with ageing, and a head start for jobs known to scale poorly.

    Args:
        usual: Run time of jobs of which it is not known, in seconds.
    """

    def __init__(self, usual: float = 0.0) -> None:
        self._usual = usual

    def rank(self, job: Job, now: float) -> Rank:
        """Paused jobs by start, then waiting ones by arrival, run time and head start."""
        if job.started is not None:
            return super().rank(job, now)
        seconds = self._usual if job.expected_seconds is None else job.expected_seconds
        head_start = _HEAD_START_SECONDS if _scales_poorly(job) else 0.0
        return (1.0, job.submitted + _AGEING * seconds - head_start)


class ByGain(Sharing):
    """Each core beyond min to the job that gains most from it."""

    def finish(
        self, admitted: Sequence[Job], counts: dict[str, int], free: int, waiting: bool
    ) -> dict[str, int]:
        """Hand out what is free, first what is known to help, then what may."""
        if not free:
            return counts
        probing = {job.id for job in [job for job in admitted if len(job.rates) == 1][::2]}
        growths = [_Growth(job, counts[job.id], job.id in probing) for job in admitted]
        limits = [job.shape.max for job in admitted]
        sure = [min(g.reach, limit) for g, limit in zip(growths, limits, strict=True)]
        free = _hand_out(growths, sure, free)
        _hand_out(growths, limits, free)
        return {growth.job.id: growth.count for growth in growths}


class _Growth:
    """A job on its way from min upwards.

    Args:
        job: Which.
        count: Its cores so far.
        probes: It is to get more than it was measured with.
    """

    def __init__(self, job: Job, count: int, probes: bool) -> None:
        measured = max((rate.cores for rate in job.rates), default=None)
        self.job = job
        self.count = count
        self.reach = job.shape.max
        # Where nothing is measured there is no noise to be kept from moving cores.
        self._kept = 0
        if measured is not None:
            self.reach = measured + max(1, measured // (4 if probes else 2))
            self._kept = present(job) if job.state == "running" else 0
        self._curve = Curve(1.0, 0.0) if probes else fit(job.rates)
        self._speedup = self._curve.speedup(count)

    def gain(self) -> float:
        """Return what the next core is worth."""
        gain = self._curve.speedup(self.count + 1) - self._speedup
        return gain * _STICKY if self.count < self._kept else gain

    def grow(self) -> None:
        self.count += 1
        self._speedup = self._curve.speedup(self.count)


def _hand_out(growths: Sequence[_Growth], limits: Sequence[int], free: int) -> int:
    """Grow jobs up to their limits while that makes them faster; return what is left."""
    queue = [
        (-growth.gain(), index)
        for index, (growth, limit) in enumerate(zip(growths, limits, strict=True))
        if growth.count < limit
    ]
    heapq.heapify(queue)
    while free and queue and queue[0][0] < 0:
        index = queue[0][1]
        growth = growths[index]
        growth.grow()
        free -= 1
        if growth.count < limits[index]:
            heapq.heapreplace(queue, (-growth.gain(), index))
        else:
            heapq.heappop(queue)
    return free


def _usual_seconds(jobs: Sequence[Job]) -> float:
    """Return the median run time of the jobs of which it is known, 0 if of none."""
    known = [job.expected_seconds for job in jobs if job.expected_seconds is not None]
    return median_low(known) if known else 0.0


def _scales_poorly(job: Job) -> bool:
    """Return whether, as measured, a core beyond min is worth less than half of one."""
    if len(job.rates) < 2:
        return False
    curve = fit(job.rates)
    least = job.shape.min
    return curve.speedup(least + 1) - curve.speedup(least) < _POOR_GAIN
