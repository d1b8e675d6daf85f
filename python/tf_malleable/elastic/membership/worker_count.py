# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Number of workers of a training on one host, from the cores that it is granted. Pure.

A change of the cores of the same workers costs no pause. So the number of workers changes only if
they could not use the grant, or could not have a core each, or if another number was measured to
be faster. More workers are tried if the current ones leave cores idle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Final

# Factor by which another number of workers must be faster to be worth a rescale.
_QUICKER: Final = 1.1
# Workers that keep a smaller share of their cores busy leave room for more workers.
_BUSY: Final = 0.6


@dataclass(frozen=True)
class Bounds:
    """Numbers of workers that are possible and useful.

    Attributes:
        least: Minimum number of workers.
        most: Maximum number of workers.
        shards: Number of shards of each batch.
        threads: Maximum number of cores that one worker may use.
        shard_threads: Number of cores that one shard can use; 0 for no limit.
    """

    least: int
    most: int
    shards: int
    threads: int
    shard_threads: int = 1

    def longest(self, workers: int) -> int:
        """Return the number of shards of the worker with the most of them."""
        return -(-self.shards // workers)

    def usable(self, workers: int) -> int:
        """Return the number of cores that this number of workers can use."""
        each = self.longest(workers) * self.shard_threads or self.threads
        return workers * min(self.threads, each)

    def counts(self) -> tuple[int, ...]:
        """Return the numbers worth trying: each makes the longest run of shards shorter."""
        found = [self.least]
        for workers in range(self.least + 1, self.most + 1):
            if self.longest(workers) < self.longest(found[-1]):
                found.append(workers)
        return tuple(found)


@dataclass(frozen=True)
class Seen:
    """Inputs of a decision.

    Attributes:
        workers: Number of workers desired so far; 0 at the start.
        cores: Number of granted cores.
        busy: Share of the cores kept busy lately, with these numbers of both; None if unknown.
        speeds: Steps a second, by numbers of workers and cores.
    """

    workers: int
    cores: int
    busy: float | None = None
    speeds: Mapping[tuple[int, int], float] = field(default_factory=dict)


def wanted(bounds: Bounds, seen: Seen) -> int:
    """Return the desired number of workers."""
    cores = seen.cores
    counts = [each for each in bounds.counts() if each <= max(cores, bounds.least)]
    most_used = min(cores, max(map(bounds.usable, counts)))
    enough = [each for each in counts if bounds.usable(each) >= most_used]
    if seen.workers not in enough:
        # The number nearest to the current one leaves most workers as they are.
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
    """How long a number of workers must be desired before it is applied, in seconds.

    Attributes:
        fewer: Time for a number smaller than the current one.
        more: Time for a greater number.
        between: Minimum time since the last change, in addition.
    """

    fewer: float = 1.0
    more: float = 3.0
    between: float = 10.0


@dataclass(frozen=True)
class Sizing:
    """The number of workers that is applied, and since when another one is desired.

    Attributes:
        workers: Number of workers that is applied.
        changed: Time of its last change, in seconds of any steady clock.
        other: Another number that is desired; None if there is none.
        since: Time since which it is desired, in seconds of that clock.
    """

    workers: int
    changed: float = -inf
    other: int | None = None
    since: float = 0.0

    def after(self, wanted: int, now: float, patience: Patience) -> Sizing:
        """Return the sizing once `wanted` workers are desired: flapping grants change nothing."""
        if wanted == self.workers:
            return Sizing(self.workers, self.changed)
        since = self.since if self.other == wanted else now
        hold = patience.fewer if wanted < self.workers else patience.more
        if now >= max(since + hold, self.changed + patience.between):
            return Sizing(wanted, now)
        return Sizing(self.workers, self.changed, wanted, since)
