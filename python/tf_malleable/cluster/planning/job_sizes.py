# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job sizes: numbers of workers, servers and CPUs that a training can use, and sensible ones."""

from __future__ import annotations

from functools import cached_property
from math import ceil, inf

from tf_malleable.cluster.planning.cluster_job import ClusterJob
from tf_malleable.elastic.membership.worker_count import Bounds, Seen, wanted
from tf_malleable.model import Rate

# CPUs are sums of decimal fractions; a value this close below a whole number counts as whole.
ROUNDING = 1e-6
# Minimum ratio of usable CPUs that makes another set of workers worth a rescale.
WORTH = 1.1


def whole(cpus: float) -> int:
    """Return the number of whole CPUs; 0 for a negative number."""
    return max(0, int(cpus + ROUNDING))


class Sizes:
    """Sizes of a training.

    Attributes:
        job: The training.
        admitted: CPUs that all members may have together; infinite if admission sets no limit.
    """

    def __init__(self, job: ClusterJob) -> None:
        self.job = job
        self.admitted = inf if job.admitted_cpus is None else whole(job.admitted_cpus)
        # A plan asks for each of them several times.
        self._goals: dict[tuple[int, int], int] = {}

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Numbers of workers worth trying, in ascending order.

        With each of them, the longest run of shards is shorter than with the one before, and long
        enough to use the minimum CPUs of a worker.
        """
        found = self._bounds(self.job.workers.most).counts()
        least = self.job.workers.cpus_least
        return tuple(n for n in found if n == found[0] or least <= self.cpus_most(n))

    def cpus_most(self, workers: int) -> int:
        """Return how many CPUs each worker can use, of this number of workers."""
        job = self.job
        longest = -(-job.shards // max(1, workers))
        return min(job.workers.cpus_most, longest * job.shard_cpus or job.workers.cpus_most)

    def limit(self, workers: int) -> int:
        """Return the maximum CPUs that each worker gets, of this number of workers."""
        return max(self.job.workers.cpus_least, self.cpus_most(workers))

    def servers(self, workers: int) -> int:
        """Return how many servers belong to this number of workers."""
        servers, bounds = self.job.servers, self.job.workers
        if not servers.most:
            return 0
        if bounds.most == bounds.least:
            return servers.most
        share = (workers - bounds.least) / (bounds.most - bounds.least)
        return servers.least + int((servers.most - servers.least) * min(1.0, max(0.0, share)) + 0.5)

    def server_cpus(self, workers: int) -> int:
        """Return the CPUs of these servers together, rounded up."""
        count = self.servers(workers)
        return ceil(count * self.job.servers.cpus - ROUNDING) if count else 0

    def least(self, workers: int) -> int:
        """Return the minimum CPUs of this number of workers and their servers together."""
        return workers * self.job.workers.cpus_least + self.server_cpus(workers)

    def most(self, workers: int) -> int:
        """Return the maximum CPUs that this number of workers and their servers get together."""
        job, most = self.job, workers * self.limit(workers)
        if job.shard_cpus:
            fewest = workers * job.workers.cpus_least
            most = min(most, max(fewest, job.shards * job.shard_cpus))
        return most + self.server_cpus(workers)

    @cached_property
    def fewest(self) -> int:
        """Minimum CPUs with which the training runs."""
        return self.least(self.job.workers.least)

    @cached_property
    def greatest(self) -> int:
        """Maximum CPUs that the training can use."""
        return max(self.most(n) for n in self.counts)

    @cached_property
    def cap(self) -> int:
        """Maximum CPUs that the training may get: what it can use, limited by admission."""
        return max(self.fewest, int(min(self.greatest, self.admitted)))

    @property
    def requested(self) -> int | None:
        """CPUs that the training requests to be admitted; None if it may not request any."""
        return self.greatest if self.job.asks_for_more else None

    @cached_property
    def seconds_left(self) -> float:
        """Remaining run time at the best measured speed, in seconds; infinite if unknown."""
        job = self.job
        if job.steps_done is None or job.steps_total is None or not job.rates:
            return inf
        fastest = max(rate.steps_per_second for rate in job.rates)
        return max(0.0, job.steps_total - job.steps_done) / fastest if fastest > 0 else inf

    def possible(self, cpus: int) -> tuple[int, ...]:
        """Return the numbers of workers worth trying whose minimum is within these CPUs."""
        return tuple(n for n in self.counts if self.least(n) <= cpus)

    def goal(self, cpus: int, workers: int) -> int:
        """Return how many workers the training should have.

        Args:
            cpus: CPUs that workers and servers get together.
            workers: Number of workers that it is to have at present; 0 at the start.
        """
        key = cpus, workers
        if key not in self._goals:
            self._goals[key] = self._goal(cpus, workers)
        return self._goals[key]

    def _goal(self, cpus: int, workers: int) -> int:
        possible = self.possible(cpus)
        if not possible:
            return self.job.workers.least
        if workers in possible and not self.job.rates and self.most(workers) >= cpus:
            return workers  # The usual case.
        if not workers:
            useful = min(cpus, max(self.most(n) for n in possible))
            return next(n for n in possible if self.most(n) * WORTH >= useful)
        if workers in possible and self.most(workers) * WORTH >= cpus:
            cpus = min(cpus, self.most(workers))
        left = max(1, cpus - self.server_cpus(workers))
        speeds: dict[tuple[int, int], float] = {}
        for rate in self.job.rates:
            size = rate.workers, rate.cpus
            speeds[size] = max(speeds.get(size, 0.0), rate.steps_per_second)
        goal = wanted(self._bounds(possible[-1]), Seen(workers, left, None, speeds))
        return max(n for n in possible if n <= max(goal, possible[0]))

    @cached_property
    def rates(self) -> tuple[Rate, ...]:
        """Speeds for a policy: the best one with each number of CPUs, including servers'."""
        best: dict[int, float] = {}
        for rate in self.job.rates:
            cpus = rate.cpus + self.server_cpus(rate.workers)
            best[cpus] = max(best.get(cpus, 0.0), rate.steps_per_second)
        return tuple(Rate(cpus, best[cpus]) for cpus in sorted(best))

    def _bounds(self, most: int) -> Bounds:
        job = self.job
        return Bounds(
            job.workers.least,
            max(job.workers.least, min(most, job.shards)),
            job.shards,
            job.workers.cpus_most,
            job.shard_cpus,
        )
