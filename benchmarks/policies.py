# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How long policies take to decide: every one, small and very large.

Usage: python benchmarks/policies.py [--json] [--repeats N] [POLICY …]
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tf_malleable.model import Cpu, Grant, Job, Machine, Rate, Shape
from tf_malleable.policies.policy import Policy
from tf_malleable.policies.registry import available, create

Situation = tuple[list[Job], Machine]


def machine(cpus: int, nodes: int = 1, siblings: int = 1) -> Machine:
    """Return a machine whose sibling CPUs are numbered as Linux does, far apart."""
    cores = cpus // siblings
    return Machine(
        tuple(
            Cpu(id=cpu, core=cpu % cores, node=(cpu % cores) * nodes // cores)
            for cpu in range(cpus)
        )
    )


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
    "128 on 2, queued": lambda: queued(128, machine(2)),
    "128 on 2, going": lambda: under_way(128, machine(2)),
    "128 on 128, going": lambda: under_way(128, machine(128, 2, 2)),
    "10,000 on 128, queued": lambda: queued(10_000, machine(128, 2, 2)),
    "10,000 on 128, going": lambda: under_way(10_000, machine(128, 2, 2)),
    "10,000 on 10,240, queued": lambda: queued(10_000, machine(10_240, 8, 2)),
    "10,000 on 10,240, going": lambda: under_way(10_000, machine(10_240, 8, 2)),
    "2,000 on 20,480, going": lambda: under_way(2_000, machine(20_480, 8, 2)),
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", nargs="*", metavar="POLICY")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    plain = [name for name, _ in available() if not name.startswith("lend+")]
    names = arguments.policies or [
        *plain,
        "priority-strict:ageing=60,preempt=longest",
        "priority-max-prop:ageing=60,preempt=smallest",
        *(f"lend+{name}" for name in plain),
    ]
    situations = {title: make() for title, make in SITUATIONS.items()}
    # The controller's other objects are no part of a decision.
    gc.freeze()
    found = {
        name: {
            title: measure(create(name), situation, arguments.repeats)
            for title, situation in situations.items()
        }
        for name in names
    }
    if arguments.json:
        print(json.dumps({"milliseconds": found}, indent=1))
        return
    print("median (slowest) CPU milliseconds of one decision; jobs on CPUs")
    print(" " * 46 + "".join(f"{title:>26s}" for title in situations))
    for name, row in found.items():
        cells = (f"{statistics.median(ms):.2f} ({max(ms):.2f})" for ms in row.values())
        print(f"{name:46s}" + "".join(f"{cell:>26s}" for cell in cells))


if __name__ == "__main__":
    main()
