# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How many cores the jobs that run get: the reassignment half of a queueing policy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from tf_malleable.model import Job
from tf_malleable.policies.counting import present
from tf_malleable.policies.filling import fill


class Sharing(ABC):
    """A way to share. Pure, like a policy.

    Attributes:
        blocks: Nobody passes a job that is next but does not fit.
    """

    blocks = True

    def needs(self, job: Job, machine: int) -> int:
        """Return how many cores must be free for a job to start on such a machine."""
        return job.shape.min

    def takes(self, job: Job, free: int, machine: int) -> int:
        """Return how many of the free cores, enough of them, a job starts with."""
        return job.shape.min

    def keep(self, running: Sequence[Job], machine: int) -> dict[str, int]:
        """Return the cores that running jobs, first started first, cannot lose to others.

        Jobs that the machine is too small for are not named.
        """
        counts: dict[str, int] = {}
        for job in running:
            if job.shape.min <= machine:
                counts[job.id] = job.shape.min
                machine -= job.shape.min
        return counts

    @abstractmethod
    def finish(
        self, admitted: Sequence[Job], counts: dict[str, int], free: int, waiting: bool
    ) -> dict[str, int]:
        """Return the final cores of the jobs that run.

        Args:
            admitted: They, first started first.
            counts: Their cores so far.
            free: Cores nobody has.
            waiting: Somebody who would fit on this machine has to wait.
        """


class Strict(Sharing):
    """Exactly what a job prefers, or the whole machine if that is less.

    A job keeps the size it runs with, even one it got from another policy.
    """

    def needs(self, job: Job, machine: int) -> int:
        """Return what it prefers."""
        return max(job.shape.min, min(job.shape.preferred, machine))

    def takes(self, job: Job, free: int, machine: int) -> int:
        """Return what it prefers."""
        return self.needs(job, machine)

    def keep(self, running: Sequence[Job], machine: int) -> dict[str, int]:
        """Return what they have."""
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
    """Everything, in proportion to a weight within min … max.

    Args:
        weight: Of a job, above 0.
    """

    def __init__(self, weight: Callable[[Job], float]) -> None:
        self._weight = weight

    def finish(
        self, admitted: Sequence[Job], counts: dict[str, int], free: int, waiting: bool
    ) -> dict[str, int]:
        """Share out the whole machine again."""
        weights = [self._weight(job) for job in admitted]
        return fill(admitted, weights, sum(counts.values()) + free)


class AlwaysAttend(Sharing):
    """Whoever finds its min starts, with what there is; only nobody's cores go round."""

    blocks = False

    def takes(self, job: Job, free: int, machine: int) -> int:
        """Return what there is, up to what it prefers."""
        return min(job.shape.preferred, free)

    def keep(self, running: Sequence[Job], machine: int) -> dict[str, int]:
        """Return what they have; on a machine too small for that, min at least."""
        counts = super().keep(running, machine)
        free = machine - sum(counts.values())
        wanted = {job.id: present(job) for job in running}
        return _topped_up(running, counts, free, wanted)

    def finish(
        self, admitted: Sequence[Job], counts: dict[str, int], free: int, waiting: bool
    ) -> dict[str, int]:
        """Let the first ones grow, unless somebody waits for what is free."""
        if waiting:
            return counts
        return _topped_up(admitted, counts, free, {job.id: job.shape.max for job in admitted})


def _topped_up(
    jobs: Sequence[Job], counts: dict[str, int], free: int, wanted: dict[str, int]
) -> dict[str, int]:
    """Return counts after free cores went to the jobs in order, up to what they want."""
    topped = dict(counts)
    for job in jobs:
        if not free:
            break
        if job.id in topped:
            more = min(free, wanted[job.id] - topped[job.id])
            topped[job.id] += more
            free -= more
    return topped
