# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which numbers of workers, servers and CPUs a training can use, and which of them make sense."""

from __future__ import annotations

from functools import cached_property
from math import ceil, inf

from tf_malleable.cluster.planning.cluster_job import ClusterJob
from tf_malleable.elastic.membership.worker_count import Bounds, Seen, wanted
from tf_malleable.model import Rate

# CPUs are sums of decimal fractions; this much below a whole one is whole.
ROUNDING = 1e-6
# So many times as many CPUs are worth other workers.
WORTH = 1.1


def whole(cpus: float) -> int:
    """Return how many whole CPUs there are."""
    return max(0, int(cpus + ROUNDING))


class Sizes:
    """The sizes of a training.

    Attributes:
        job: The training.
        admitted: CPUs that its members may have together.
    """

    def __init__(self, job: ClusterJob) -> None:
        self.job = job
        self.admitted = inf if job.admitted_cpus is None else whole(job.admitted_cpus)
        # Each is asked for several times in a plan.
        self._goals: dict[tuple[int, int], int] = {}

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The numbers of workers worth trying.

        With each the longest run of shards is shorter than with the one before, and long enough
        for the fewest CPUs of a worker.
        """
        found = self._bounds(self.job.workers.most).counts()
        least = self.job.workers.cpus_least
        return tuple(n for n in found if n == found[0] or least <= self.cpus_most(n))

    def cpus_most(self, workers: int) -> int:
        """Return how many CPUs a worker can use if there are so many."""
        job = self.job
        longest = -(-job.shards // max(1, workers))
        return min(job.workers.cpus_most, longest * job.shard_cpus or job.workers.cpus_most)

    def limit(self, workers: int) -> int:
        """Return the most CPUs that a worker gets if there are so many."""
        return max(self.job.workers.cpus_least, self.cpus_most(workers))

    def servers(self, workers: int) -> int:
        """Return how many servers there should be."""
        servers, bounds = self.job.servers, self.job.workers
        if not servers.most:
            return 0
        if bounds.most == bounds.least:
            return servers.most
        share = (workers - bounds.least) / (bounds.most - bounds.least)
        return servers.least + int((servers.most - servers.least) * min(1.0, max(0.0, share)) + 0.5)

    def server_cpus(self, workers: int) -> int:
        """Return how many CPUs these servers have, rounded up."""
        count = self.servers(workers)
        return ceil(count * self.job.servers.cpus - ROUNDING) if count else 0

    def least(self, workers: int) -> int:
        """Return the fewest CPUs of so many workers and their servers."""
        return workers * self.job.workers.cpus_least + self.server_cpus(workers)

    def most(self, workers: int) -> int:
        """Return the most CPUs that so many workers and their servers get."""
        job, most = self.job, workers * self.limit(workers)
        if job.shard_cpus:
            fewest = workers * job.workers.cpus_least
            most = min(most, max(fewest, job.shards * job.shard_cpus))
        return most + self.server_cpus(workers)

    @cached_property
    def fewest(self) -> int:
        """The fewest CPUs with which it runs."""
        return self.least(self.job.workers.least)

    @cached_property
    def greatest(self) -> int:
        """The most CPUs that it can use."""
        return max(self.most(n) for n in self.counts)

    @cached_property
    def cap(self) -> int:
        """The most CPUs that it may get."""
        return max(self.fewest, int(min(self.greatest, self.admitted)))

    @property
    def requested(self) -> int | None:
        """The CPUs that it asks to be admitted; None if it may not ask."""
        return self.greatest if self.job.asks_for_more else None

    @cached_property
    def seconds_left(self) -> float:
        """For how long it will run if it is as fast as it ever was; infinite if unknown."""
        job = self.job
        if job.steps_done is None or job.steps_total is None or not job.rates:
            return inf
        fastest = max(rate.steps_per_second for rate in job.rates)
        return max(0.0, job.steps_total - job.steps_done) / fastest if fastest > 0 else inf

    def possible(self, cpus: int) -> tuple[int, ...]:
        """Return the numbers of workers worth trying that so many CPUs are enough for."""
        return tuple(n for n in self.counts if self.least(n) <= cpus)

    def goal(self, cpus: int, workers: int) -> int:
        """Return how many workers there should be.

        Args:
            cpus: What they and the servers get.
            workers: How many there are to be at present; 0 at the start.
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
        """Its speeds for a policy: the best with each number of CPUs, servers included."""
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
