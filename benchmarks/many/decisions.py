# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure how long policies take to decide: every one, small and very large.

CPU milliseconds per decision, by number of jobs and CPUs.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.command_line import CommandLine, finish, positive, sayer
from benchmarks.common.policies import all_policies
from tf_malleable.model import Grant, Job, Machine, Rate, Shape
from tf_malleable.policies.policy import Policy
from tf_malleable.policies.registry import create

if TYPE_CHECKING:
    from benchmarks.common.rows import Row

Situation = tuple[list[Job], Machine]


def jobs(count: int, largest: int, seed: int = 0) -> Iterator[Job]:
    """Yield jobs that wait, half of them with speeds known from earlier ones."""
    rng = random.Random(seed)
    for number in range(count):
        serial, speed = rng.uniform(0.02, 0.6), rng.uniform(1, 50)
        rates = tuple(
            Rate(cores, speed / (serial + (1 - serial) / cores) * rng.uniform(0.97, 1.03))
            for cores in (1, 2, 3, 4, 6)
        )
        most = rng.randint(1, largest)
        yield Job(
            id=str(number),
            shape=Shape(1, rng.randint(1, most), most),
            submitted=float(number),
            since=float(number),
            priority=rng.randint(0, 9),
            weight=rng.uniform(0.5, 4),
            rates=rates if number % 2 else (),
        )


def queued(count: int, on: Machine) -> Situation:
    """All wait, nothing runs."""
    return list(jobs(count, len(on.cpus))), on


def under_way(count: int, on: Machine) -> Situation:
    """One policy has decided a while ago; a third of the jobs sleep, a third are half idle."""
    waiting, _ = queued(count, on)
    allocation = create("equal").allocate(waiting, on, float(count))
    rng = random.Random(1)
    going = []
    for job in waiting:
        grant = allocation.grants.get(job.id, Grant())
        if grant:
            job = replace(
                job,
                state="running",
                since=float(count),
                started=float(count),
                grant=grant,
                run_seconds=30.0,
                used_cpus=len(grant.cpus) * rng.choice((0.0, 0.4, 1.0)),
                steps_done=10.0,
                steps_total=1000.0,
            )
        going.append(job)
    return going, on


SITUATIONS: dict[str, Callable[[], Situation]] = {
    "128 on 2, queued": lambda: queued(128, Machine.regular(2)),
    "128 on 2, going": lambda: under_way(128, Machine.regular(2)),
    "128 on 128, going": lambda: under_way(128, Machine.regular(128, 2, 2)),
    "1,000 on 256, queued": lambda: queued(1_000, Machine.regular(256, 2, 2)),
    "1,000 on 256, going": lambda: under_way(1_000, Machine.regular(256, 2, 2)),
    "10,000 on 128, queued": lambda: queued(10_000, Machine.regular(128, 2, 2)),
    "10,000 on 128, going": lambda: under_way(10_000, Machine.regular(128, 2, 2)),
    "10,000 on 10,240, queued": lambda: queued(10_000, Machine.regular(10_240, 8, 2)),
    "10,000 on 10,240, going": lambda: under_way(10_000, Machine.regular(10_240, 8, 2)),
    "2,000 on 20,480, going": lambda: under_way(2_000, Machine.regular(20_480, 8, 2)),
}


def measure(policy: Policy, situation: Situation, repeats: int) -> list[float]:
    """Return milliseconds of CPU time, which other programs hardly disturb, one decision each."""
    waiting, on = situation
    now = max(job.submitted for job in waiting) + 31.0
    samples = []
    for _ in range(repeats):
        begin = time.thread_time()
        policy.allocate(waiting, Machine(on.cpus), now)
        samples.append((time.thread_time() - begin) * 1e3)
    return samples


def rows(found: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Row]:
    """Return the median milliseconds of each policy in each situation, with the 99th percentile."""
    import numpy as np

    from benchmarks.common.estimates import estimate, percentile_99
    from benchmarks.common.rows import Row

    return [
        Row(
            policy,
            policy,
            "ms",
            estimate([samples]),
            workload=title,
            remark=f"99th percentile {percentile_99(np.array(samples)):.2f} ms",
        )
        for policy, situations in found.items()
        for title, samples in situations.items()
    ]


def choices() -> dict[str, str]:
    """Return the policies, each with what it does."""
    with_options = (
        "priority-strict:ageing=60,preempt=longest",
        "priority-max-prop:ageing=60,preempt=smallest",
    )
    return all_policies() | dict.fromkeys(with_options, "with its options")


def run(policies: Sequence[str], repeats: int, out: Path) -> None:
    """Measure, write and print."""
    from benchmarks.common.results import Results  # Heavy, and so only when nothing is refused.

    results, say = Results("many.decisions", out, repeats=repeats), sayer()
    situations = {title: make() for title, make in SITUATIONS.items()}
    # The controller's other objects are no part of a decision.
    gc.freeze()
    found: dict[str, dict[str, list[float]]] = {}
    for name in policies:
        found[name] = {
            title: measure(create(name), situation, repeats)
            for title, situation in situations.items()
        }
        say(name)
        results.write(rows(found), milliseconds=found)
    results.tell()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    names = choices()
    line = CommandLine("many.decisions", str(__doc__), "out/decisions", names)
    line.add_argument("--rounds", type=positive, default=5, help="decisions of each kind")
    said = line.parse(arguments)
    return finish("many.decisions", lambda: run(said.only or tuple(names), said.rounds, said.out))


if __name__ == "__main__":
    sys.exit(main())
