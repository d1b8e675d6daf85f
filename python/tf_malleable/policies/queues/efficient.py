# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Efficient policy: cores go where measured speed-ups gain most, with proportional fairness."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from tf_malleable.model import Job
from tf_malleable.policies.queues.backfill import OVERTAKING_RUN_TIMES, OVERTAKING_SECONDS
from tf_malleable.policies.queues.orders import Fcfs, Rank, arrival
from tf_malleable.policies.queues.queue_policy import QueueingPolicy
from tf_malleable.policies.queues.remaining_work import (
    geometric_step,
    remaining_work,
    usual_seconds,
)
from tf_malleable.policies.queues.speedup import Curve, fit
from tf_malleable.policies.shares.core_counts import CountingPolicy, Decision, present
from tf_malleable.policies.shares.sharing_rules import Sharing

# A core moves only for a gain this much larger; otherwise noise would move it back and forth.
_STICKY = 1.1
# Urgency of short jobs relative to long ones: a job with a 16th of the work left has
# 16 ** _URGENCY times the claim to a core, if both gain the same fraction of their speed. With
# 0 all jobs count alike. The larger the value, the shorter the mean turnaround, and the later
# long jobs end. Not yet tuned by simulation.
_URGENCY = 0.25
# Claims change only when the work left has shrunk by this factor; otherwise cores would
# move continuously.
_URGENCY_STEP = 4.0
_POOR_GAIN = 0.5
_HEAD_START_SECONDS = OVERTAKING_SECONDS
# Seconds of waiting that offset one second of run time. With 3, jobs that arrive within
# half a minute run nearly shortest first; in simulations of 16 jobs, higher values
# shortened turnaround by another 2 % at most.
_AGEING = OVERTAKING_RUN_TIMES
_REVIEW_SECONDS = 2.0


class EfficientPolicy(CountingPolicy):
    """Gives each core, one at a time, to the job with the largest relative gain in speed.

    That is proportional fairness (Kelly, Maulloo and Tan, "Rate control for communication
    networks", 1998): it maximises the product of the speed-ups. Doubling the speed of one
    job is worth halving that of another, so a job of poor or unknown scaling keeps a share
    beside one that scales perfectly, and gives up only cores that hardly help it. Among
    equal jobs it is equipartition. The less work a job has left, the more its speed counts,
    which shortens mean turnaround; see `_URGENCY`. The greedy choice is optimal because
    logarithms of concave speed-up curves are concave.

    Curves are fitted to measured speeds, see `speedup.fit`. While others are known to benefit
    from the cores, a job grows only slightly above the most cores it was measured with: 1, 2,
    3, 4, 6, 9 … Any job may try cores that no job is known to benefit from. Of the jobs
    measured with a single number of cores, every second one gets a quarter more, at least 1,
    at the expense of the others, so that soon all have curves. Jobs without measurements,
    because they are new or report no steps, are assumed to scale well, and get about their
    equal share.

    As many jobs run as fit with min; none is paused. Short jobs start first: every second
    that a job is expected to run (from earlier runs of the same command) delays its place
    in the queue by three seconds. Jobs known to scale poorly get a head start of ten
    minutes, because jobs that scale can use the whole machine at the end. Each point of
    priority counts like having arrived a minute earlier. Among jobs of equal priority, a job
    therefore never waits for one that arrives more than ten minutes plus three times its own
    run time after it. If no run times are known, this is first come, first served; if some
    are, a new command is expected to run for their median. (Shortest first minimises the
    mean: Smith, "Various optimizers for single-stage production", 1956. Run times recur
    because jobs do: Weng et al., "MLaaS in the Wild", NSDI 2022.) If the head of the queue
    does not fit, later jobs that do not delay it may start; see `backfill`.

    Work-conserving: no core is idle while the next in the queue would fit or a
    running job below max is expected to be faster with it. Starves no job.
    """

    def decide(self, jobs: Sequence[Job], cores: int, now: float) -> Decision:
        """Return how many of `cores` cores each job gets."""
        order = ShortestJobFirst(usual_seconds(jobs) or 0.0)
        decision = QueueingPolicy(order, ByGain(), backfills=True).decide(jobs, cores, now)
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
        usual: Run time assumed for jobs whose run time is unknown, in seconds.
    """

    def __init__(self, usual: float = 0.0) -> None:
        self._usual = usual

    def rank(self, job: Job, now: float) -> Rank:
        """Rank paused jobs by start, others by arrival, priority, run time and head start."""
        if job.started is not None:
            return super().rank(job, now)
        seconds = self._usual if job.expected_seconds is None else job.expected_seconds
        head_start = _HEAD_START_SECONDS if _scales_poorly(job) else 0.0
        return (1.0, arrival(job) + _AGEING * seconds - head_start)


class ByGain(Sharing):
    """Gives each core beyond min to the job with the largest relative gain from it."""

    def finish(
        self, admitted: Sequence[Job], counts: dict[str, int], free: int, waiting: bool
    ) -> dict[str, int]:
        """Hand out the free cores: first where they are known to help, then where they may."""
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
    """A job that receives cores one by one, starting from min.

    Args:
        job: The job.
        count: Number of cores so far.
        probes: True to give the job more cores than it was measured with.
    """

    def __init__(self, job: Job, count: int, probes: bool) -> None:
        measured = max((rate.cores for rate in job.rates), default=None)
        self.job = job
        self.count = count
        self.reach = job.shape.max
        # Without measurements there is no noise that could move cores.
        self._kept = 0
        if measured is not None:
            self.reach = measured + max(1, measured // (4 if probes else 2))
            self._kept = present(job) if job.state == "running" else 0
        self._curve = Curve(1.0, 0.0) if probes else fit(job.rates)
        self._speedup = self._curve.speedup(count)
        self._claim = _claim(job)

    def gain(self) -> float:
        """Return the relative gain in speed from the next core, times the job's claim."""
        gain = self._claim * (self._curve.speedup(self.count + 1) / self._speedup - 1.0)
        return gain * _STICKY if self.count < self._kept else gain

    def grow(self) -> None:
        self.count += 1
        self._speedup = self._curve.speedup(self.count)


def _hand_out(growths: Sequence[_Growth], limits: Sequence[int], free: int) -> int:
    """Grow jobs up to their limits while that speeds them up; return the cores left over."""
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


def _claim(job: Job) -> float:
    """Return the weight of a job's speed; the less work it has left, the larger."""
    step = geometric_step(remaining_work(job), _URGENCY_STEP)
    return float(_URGENCY_STEP ** (-_URGENCY * step))


def _scales_poorly(job: Job) -> bool:
    """Return whether the first core beyond min was measured to add less than 0.5 speed-up."""
    if len(job.rates) < 2:
        return False
    curve = fit(job.rates)
    least = job.shape.min
    return curve.speedup(least + 1) - curve.speedup(least) < _POOR_GAIN
