# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Simulates up to 100,000 units, in virtual time, with the costs measured of a real broker.

A broker serves one message after another, and so does an organiser, of which each broker has one.
Each budget goes through the broker to its unit, and the acknowledgement back through it.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from benchmarks.power.units import share_out

PROFILE_SECONDS: Final = 10.0
# Round trips within a site, in seconds: their median, and how much they vary.
MEDIAN_TRIP: Final = 0.002
SIGMA: Final = 1.0
# Seconds that a unit's loop takes until it answers.
ANSWER: Final = 0.002


@dataclass(frozen=True)
class Costs:
    """As benchmarks.power.units has measured them.

    Attributes:
        budget: CPU seconds for a budget and its acknowledgement.
        profile: CPU seconds for a profile.
        kib: Memory of a unit in the broker, in KiB.
        organiser: Seconds for a budget and its acknowledgement in all processes that take part,
            which were on one machine: so an organiser takes no longer.
    """

    budget: float
    profile: float
    kib: float
    organiser: float


@dataclass(frozen=True)
class Simulated:
    """What is to be expected of so many units.

    Attributes:
        units: Their number.
        brokers: Number of brokers that share them.
        p99: Seconds from publication to acknowledgement of 99 % of the units.
        last: Those of the last one.
        share_out: Seconds for sharing the budget out, on this machine.
        busy: Share of a core that profiles take of each broker.
        mib: Memory of each broker.
        reconnect: CPU seconds of a broker for all its units if it was killed, at least.
    """

    units: int
    brokers: int
    p99: float
    last: float
    share_out: float
    busy: float
    mib: float
    reconnect: float


def simulated(units: int, brokers: int, costs: Costs, seed: int = 1) -> Simulated:
    """Return what is to be expected."""
    generator = random.Random(seed)
    share = -(-units // brokers)
    times: list[float] = []
    for _ in range(brokers):
        times += _pushed(share, costs, generator)
    times.sort()
    return Simulated(
        units,
        brokers,
        round(times[int(0.99 * (len(times) - 1))], 3),
        round(times[-1], 3),
        round(share_out(units), 3),
        round(share * costs.profile / PROFILE_SECONDS, 4),
        round(8 + share * costs.kib / 1024, 1),
        # A connection, two subscriptions and two retained messages: as five messages.
        round(share * costs.budget * 2.5, 2),
    )


def _pushed(units: int, costs: Costs, generator: random.Random) -> list[float]:
    """Return when the acknowledgement of each unit is back, in virtual time."""

    def trip() -> float:
        return generator.lognormvariate(0, SIGMA) * MEDIAN_TRIP / 2

    # Profiles go on meanwhile, and leave less of the broker.
    service = costs.budget / 2 / max(0.01, 1 - units * costs.profile / PROFILE_SECONDS)
    published = costs.organiser / 2
    arrivals = [(number * published, False) for number in range(1, units + 1)]
    heapify(arrivals)
    free_at, organiser_at, done = 0.0, units * published, []
    while arrivals:
        at, is_ack = heappop(arrivals)
        free_at = max(free_at, at) + service
        if is_ack:
            organiser_at = max(organiser_at, free_at + trip()) + published
            done.append(organiser_at)
        else:
            heappush(arrivals, (free_at + trip() + ANSWER + trip(), True))
    return done


def main(arguments: Sequence[str]) -> None:
    """Simulate with the costs in a file that benchmarks.power.units has printed."""
    with open(arguments[0]) as file:
        found = json.load(file)[-1]
    costs = Costs(
        found["broker_cpu_ms"] / 1000,
        found["profile_cpu_ms"] / 1000,
        found["broker_kib_per_unit"],
        1 / found["budgets_per_second"],
    )
    cases = [
        (50, 1),
        (200, 1),
        (1000, 1),
        (10_000, 1),
        (10_000, 4),
        (100_000, 1),
        (100_000, 10),
        (100_000, 100),
    ]
    print(json.dumps([asdict(simulated(*case, costs)) for case in cases], indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
