# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How many workers a training has on one host, from the cores that it is granted. Pure.

More or fewer cores for the same workers cost no pause, so the number of workers changes only if
they could not use what is granted, or could not have a core each; or if another number was
measured to be quicker. More workers are tried if the present ones leave cores idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

# Another number of workers must be so many times as quick to be worth a rescale.
_QUICKER: Final = 1.1
# Workers that keep less of their cores busy leave some to others.
_BUSY: Final = 0.6


@dataclass(frozen=True)
class Bounds:
    """What numbers of workers are possible, and make sense.

    Attributes:
        least: The fewest workers.
        most: The most.
        shards: Into how many each batch is cut.
        threads: Most cores that one worker may use.
        shard_threads: Cores that one shard can use; 0 for any number.
    """

    least: int
    most: int
    shards: int
    threads: int
    shard_threads: int = 1

    def longest(self, workers: int) -> int:
        """Return how many shards the worker with the most of them has."""
        return -(-self.shards // workers)

    def usable(self, workers: int) -> int:
        """Return how many cores so many workers can use."""
        each = self.longest(workers) * self.shard_threads or self.threads
        return workers * min(self.threads, each)

    def counts(self) -> tuple[int, ...]:
        """Return the numbers worth trying: with each, the longest run of shards is shorter."""
        found = [self.least]
        for workers in range(self.least + 1, self.most + 1):
            if self.longest(workers) < self.longest(found[-1]):
                found.append(workers)
        return tuple(found)


@dataclass(frozen=True)
class Seen:
    """What is known when it is decided.

    Attributes:
        workers: How many there are to be at present; 0 at the start.
        cores: How many are granted.
        busy: Share of the cores kept busy lately, with so many of both; None if not known.
        speeds: Steps a second, by numbers of workers and cores.
    """

    workers: int
    cores: int
    busy: float | None = None
    speeds: Mapping[tuple[int, int], float] = field(default_factory=dict)


def wanted(bounds: Bounds, seen: Seen) -> int:
    """Return how many workers there should be."""
    cores = seen.cores
    counts = [each for each in bounds.counts() if each <= max(cores, bounds.least)]
    most_used = min(cores, max(map(bounds.usable, counts)))
    enough = [each for each in counts if bounds.usable(each) >= most_used]
    if seen.workers not in enough:
        # The number that is nearest to the present one leaves most of them as they are.
        return min(enough, key=lambda each: (abs(each - seen.workers), each))
    known = {each: seen.speeds[each, cores] for each in counts if (each, cores) in seen.speeds}
    mine = known.get(seen.workers)
    if mine is None:
        return seen.workers
    fewer = [
        each for each in enough if each < seen.workers and known.get(each, 0) * _QUICKER > mine
    ]
    if fewer:
        return max(fewer, key=lambda each: known[each])
    more = [each for each in known if each > seen.workers and known[each] > mine * _QUICKER]
    if more:
        return max(more, key=lambda each: known[each])
    untried = [each for each in counts if each > seen.workers and each not in known]
    is_idle = seen.busy is not None and seen.busy < _BUSY
    return untried[0] if untried and is_idle else seen.workers


@dataclass(frozen=True)
class Patience:
    """For how long a number of workers must be wanted before it is carried out, in seconds.

    Attributes:
        fewer: If it is smaller than the present one.
        more: If it is greater.
        between: How long ago the last change must be, besides.
    """

    fewer: float = 1.0
    more: float = 3.0
    between: float = 10.0


@dataclass(frozen=True)
class Sizing:
    """What is carried out, and since when something else is wanted.

    Attributes:
        workers: How many workers there are to be.
        changed: When that changed last, in seconds of any steady clock.
        other: Another number that is wanted.
        since: Since when.
    """

    workers: int
    changed: float = -inf
    other: int | None = None
    since: float = 0.0

    def after(self, wanted: int, now: float, patience: Patience) -> Sizing:
        """Return what is carried out once so many are wanted: grants that flap change nothing."""
        if wanted == self.workers:
            return Sizing(self.workers, self.changed)
        since = self.since if self.other == wanted else now
        hold = patience.fewer if wanted < self.workers else patience.more
        if now >= max(since + hold, self.changed + patience.between):
            return Sizing(wanted, now)
        return Sizing(self.workers, self.changed, wanted, since)
