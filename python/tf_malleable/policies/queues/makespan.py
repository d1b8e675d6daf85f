# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Weight of the makespan relative to the turnarounds, and even shares for equally long jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

# The makespan counts as much as the turnarounds of this many jobs. Minimising the mean turnaround
# alone would give cores to few jobs, which use them less efficiently, and the last job would end
# late. With few cores the choice is coarse, and a large weight would make all jobs share them at
# any cost. With many jobs, the longest must not get most of the cores: others arrive before it
# ends. Chosen by simulation.
USUAL_WEIGHT: Final = 3.0
_AT_LEAST = 1.0
_PER_CORE = 0.125
_OF_MANY = 15.0
# Relative increase of the weight if all jobs take as long as the longest. If one job takes far
# longer, the makespan hardly depends on how the others share. For similar jobs that arrive one by
# one, the increase makes the mean turnaround 2 to 4 % higher. Chosen by simulation.
_OF_ALIKE = 5.5
_POWER = 8


def makespan_weight(lengths: Sequence[float], cores: int) -> float:
    """Return the weight of the makespan relative to the turnaround of each job.

    Args:
        lengths: Total length of each job, in seconds on one core; at least one job.
        cores: Number of cores.
    """
    most = _AT_LEAST + _PER_CORE * cores
    weight = min(USUAL_WEIGHT, _OF_MANY / len(lengths))
    if most > USUAL_WEIGHT:
        weight *= 1.0 + _OF_ALIKE * _alikeness(lengths) ** _POWER
    return min(weight, most)


def _alikeness(lengths: Sequence[float]) -> float:
    """Return the mean length of the others relative to the longest, 0 … 1; 0 without others."""
    longest, others = max(lengths), len(lengths) - 1
    return (sum(lengths) - longest) / others / longest if others and longest > 0.0 else 0.0


def evened(counts: Sequence[int], limits: Sequence[int], as_long: Sequence[bool]) -> list[int]:
    """Return core counts that do not rise from one job to the next of the same length.

    With a large weight of the makespan, most cores go to the job that is to end last. If others
    have as much work left, one of them ends last instead. Ending together is the best they can
    do, so adjacent violators are pooled (Ayer, Brunk, Ewing, Reid and Silverman, "An
    empirical distribution function for sampling with incomplete information", 1955).

    Args:
        counts: Number of cores of each job.
        limits: Maximum number of cores each job can use. Jobs are not pooled if one of them
            cannot use an even share.
        as_long: Whether each job has about as much work left as the one before it.
    """
    pools: list[_Pool] = []
    for pool in map(_Pool, counts, [1] * len(counts), limits, as_long):
        while pools and pool.as_long and pools[-1].has_less_than(pool):
            merged = pools[-1].merged(pool)
            if merged.counts[0] > merged.limit:
                break
            pools.pop()
            pool = merged
        pools.append(pool)
    return [count for pool in pools for count in pool.counts]


class _Pool(NamedTuple):
    """Adjacent jobs that share their cores evenly.

    Attributes:
        total: Number of cores of all jobs of the pool.
        size: Number of jobs.
        limit: Maximum number of cores that each of the jobs can use.
        as_long: Whether the first job has about as much work left as the job before it.
    """

    total: int
    size: int
    limit: int
    as_long: bool

    def has_less_than(self, other: _Pool) -> bool:
        return self.total * other.size < other.total * self.size

    def merged(self, other: _Pool) -> _Pool:
        limit = min(self.limit, other.limit)
        return _Pool(self.total + other.total, self.size + other.size, limit, self.as_long)

    @property
    def counts(self) -> list[int]:
        each, more = divmod(self.total, self.size)
        return [each + (index < more) for index in range(self.size)]
