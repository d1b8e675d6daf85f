# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Static workers: each training has the same from start to end, first come, first served.

One that finds no room does not keep later ones from starting, as in a queue of Kueue's kind
BestEffortFIFO.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from benchmarks.cluster_size.works import START_SECONDS, Outcome, Work


def run(some: Sequence[Work], nodes: int, cpus: int, part: float) -> Outcome:
    """Return how trainings fare.

    Args:
        some: The trainings, in order of arrival.
        nodes: Number of nodes.
        cpus: CPUs of each.
        part: Part of the workers that each could use at most, which it asks for.
    """
    free = [cpus] * nodes
    events: list[tuple[float, int, Work | None, list[int]]] = [
        (work.arrival, number, work, []) for number, work in enumerate(some)
    ]
    heapq.heapify(events)
    count = len(events)
    queue: list[Work] = []
    outcome = Outcome({}, [(0.0, 0)], [])
    while events:
        now, _, work, places = heapq.heappop(events)
        if places and work is not None:
            outcome.ends[work.name] = now
            for place in places:
                free[place] += work.bounds.cpus_most
        elif work is not None:
            queue.append(work)
        waiting = []
        for each in queue:
            workers = asked(each, part)
            found = _places(free, workers, each.bounds.cpus_most)
            if found is None:
                waiting.append(each)
                continue
            for place in found:
                free[place] -= each.bounds.cpus_most
            speed = each.speed(workers * each.bounds.cpus_most, workers)
            end = now + START_SECONDS + each.seconds / speed
            count += 1
            heapq.heappush(events, (end, count, each, found))
        queue = waiting
        outcome.used.append((now, nodes * cpus - sum(free)))
    return outcome


def asked(work: Work, part: float) -> int:
    """Return how many workers a training asks for."""
    useful = -(-work.shards // work.bounds.cpus_most)
    return max(1, round(min(useful, work.bounds.most) * part))


def _places(free: Sequence[int], workers: int, cpus: int) -> list[int] | None:
    """Return a node for each worker, the fullest first; None if there is no room for all."""
    found: list[int] = []
    for place in sorted(range(len(free)), key=lambda place: free[place]):
        fit = min(free[place] // cpus, workers - len(found))
        found += [place] * fit
        if len(found) == workers:
            return found
    return None
