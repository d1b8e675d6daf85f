# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Ways to share cores among running jobs: the second half of a queueing policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from tf_malleable.model import Job
from tf_malleable.policies.shares.core_counts import least, present
from tf_malleable.policies.shares.max_min_shares import fill


class Sharing(ABC):
    """A way to share cores. Pure, like a policy.

    Attributes:
        blocks: True if no job overtakes the next one in the queue while that does not fit.
    """

    blocks = True

    def needs(self, job: Job, machine: int) -> int:
        """Return the number of cores that must be free for a job to start on such a machine."""
        return job.shape.min

    def takes(self, job: Job, free: int, machine: int) -> int:
        """Return the number of free cores, at least needs(), that a job starts with."""
        return job.shape.min

    def keep(self, running: Sequence[Job], machine: int) -> dict[str, int]:
        """Return the cores that running jobs cannot lose to others, by job id.

        Args:
            running: Running jobs in order of first start; jobs that do not fit are left out.
            machine: Number of cores.
        """
        return least(running, machine)

    @abstractmethod
    def finish(
        self, admitted: Sequence[Job], counts: dict[str, int], free: int, waiting: bool
    ) -> dict[str, int]:
        """Return the final number of cores of each running job, by job id.

        Args:
            admitted: The jobs that run, in order of first start.
            counts: Their cores so far, by job id.
            free: Number of free cores.
            waiting: Whether a job waits that would fit on this machine.
        """


class Strict(Sharing):
    """A job gets exactly what it prefers, or the whole machine if that is less.

    A running job keeps its number of cores, even one that another policy gave it.
    """

    def needs(self, job: Job, machine: int) -> int:
        """Return the preferred number, limited by the machine."""
        return max(job.shape.min, min(job.shape.preferred, machine))

    def takes(self, job: Job, free: int, machine: int) -> int:
        """Return the preferred number, limited by the machine."""
        return self.needs(job, machine)

    def keep(self, running: Sequence[Job], machine: int) -> dict[str, int]:
        """Return the current number of cores of each job."""
        counts: dict[str, int] = {}
        for job in running:
            count = present(job)
            if count <= machine:
                counts[job.id] = count
                machine -= count
        return counts

    def finish(
        self, admitted: Sequence[Job], counts: dict[str, int], free: int, waiting: bool
    ) -> dict[str, int]:
        """Change nothing."""
        return counts


class Proportional(Sharing):
    """All cores are shared in proportion to a weight, within min … max.

    Args:
        weight: Returns a job's weight, above 0.
    """

    def __init__(self, weight: Callable[[Job], float]) -> None:
        self._weight = weight

    def finish(
        self, admitted: Sequence[Job], counts: dict[str, int], free: int, waiting: bool
    ) -> dict[str, int]:
        """Share out the whole machine anew."""
        weights = [self._weight(job) for job in admitted]
        return fill(admitted, weights, sum(counts.values()) + free)


class AlwaysAttend(Sharing):
    """A job starts as soon as its min is free; only free cores are handed out."""

    blocks = False

    def takes(self, job: Job, free: int, machine: int) -> int:
        """Return the free cores, up to the preferred number."""
        return min(job.shape.preferred, free)

    def keep(self, running: Sequence[Job], machine: int) -> dict[str, int]:
        """Return each job's current cores; fewer, at least min, if the machine is too small."""
        counts = super().keep(running, machine)
        free = machine - sum(counts.values())
        wanted = {job.id: present(job) for job in running}
        return _topped_up(running, counts, free, wanted)

    def finish(
        self, admitted: Sequence[Job], counts: dict[str, int], free: int, waiting: bool
    ) -> dict[str, int]:
        """Let jobs grow in order of first start, unless another job waits."""
        if waiting:
            return counts
        return _topped_up(admitted, counts, free, {job.id: job.shape.max for job in admitted})


def _topped_up(
    jobs: Sequence[Job], counts: dict[str, int], free: int, wanted: dict[str, int]
) -> dict[str, int]:
    """Return counts after giving the free cores to the jobs in order, up to `wanted`."""
    topped = dict(counts)
    for job in jobs:
        if not free:
            break
        if job.id in topped:
            more = min(free, wanted[job.id] - topped[job.id])
            topped[job.id] += more
            free -= more
    return topped
