# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a policy can be asked about: machines with jobs that wait, run and are paused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import strategies as st

from tf_malleable.model import NO_GRANT, Allocation, Cpu, Grant, Job, Machine, Rate, Shape
from tf_malleable.policies.registry import available

NOW = 1000.0
PLAIN = [name for name, _ in available() if "+" not in name]
WITH_OPTIONS = [
    "priority-strict:ageing=60",
    "priority-max-prop:ageing=60",
    "priority-strict:ageing=60,preempt=longest",
    "priority-max-prop:preempt=smallest",
    "priority-always-attend:preempt=longest,ageing=7",
    "round-robin-max-prop:quantum=100",
]
SPECS = [*PLAIN, *WITH_OPTIONS, *(f"lend+{name}" for name in [*PLAIN, *WITH_OPTIONS[2:4]])]


@dataclass(frozen=True)
class Situation:
    """What a policy is told.

    Attributes:
        jobs: In order of arrival.
        machine: To share out.
        settled: The running jobs' CPUs are all there, and no two jobs have the same.
    """

    jobs: tuple[Job, ...]
    machine: Machine
    settled: bool


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    siblings = draw(st.integers(1, 2))
    # Some decide otherwise on large machines.
    cores = draw(st.integers(1, 6) | st.just(24))
    nodes = draw(st.integers(1, min(3, cores)))
    ids = draw(st.permutations(range(cores * siblings)))
    return Machine(
        tuple(
            Cpu(id=ids[core * siblings + sibling], core=core, node=core % nodes)
            for core in range(cores)
            for sibling in range(siblings)
        )
    )


@st.composite
def situations(draw: st.DrawFn, settled: bool = False) -> Situation:
    """Draw a situation, or one of those that are settled."""
    machine = draw(machines())
    lending = not settled and draw(st.booleans())
    free = list(machine.cpuset)
    jobs: list[Job] = []
    lent: set[int] = set()
    for number in range(draw(st.integers(0, 8))):
        job = draw(_waiting(number, len(machine.cpus)))
        least = job.shape.min
        state = draw(st.sampled_from(["waiting", "running", "running", "paused"]))
        if state == "running" and least <= len(free):
            count = draw(st.integers(least, min(job.shape.max, len(free))))
            cpus, free = frozenset(free[:count]), free[count:]
            grant = Grant(cpus)
            if lending and draw(st.booleans()):
                loan = frozenset(cpu for cpu in sorted(cpus) if cpu not in lent)
                loan = frozenset(sorted(loan)[: draw(st.integers(0, len(loan)))])
                lent |= loan
                free += loan
                grant = Grant(cpus - loan, loan)
            job = replace(
                job,
                state="running",
                grant=grant,
                used_cpus=draw(st.none() | st.floats(0, max(len(grant.cpus), 0.5))),
            )
        elif state != "waiting":
            job = replace(job, state="paused")
        if job.state != "waiting":
            job = draw(_started(job))
        jobs.append(job)
    loses = not settled and draw(_rarely)
    lost = draw(st.sets(st.sampled_from(sorted(machine.cpuset)))) if loses else set()
    return Situation(tuple(jobs), machine.without(frozenset(lost)), not lent and not lost)


_rarely = st.integers(0, 9).map(lambda number: number == 0)


@st.composite
def _waiting(draw: st.DrawFn, number: int, cpus: int) -> Job:
    least, preferred, most = sorted(draw(st.tuples(*[st.integers(1, cpus + 1)] * 3)))
    submitted = number * 10.0
    rates = draw(
        st.dictionaries(st.integers(1, 12), st.floats(0.1, 50), max_size=4).map(
            lambda speeds: tuple(Rate(cores, speed) for cores, speed in sorted(speeds.items()))
        )
    )
    return Job(
        id=f"job {number}",
        shape=Shape(draw(st.sampled_from([1, least])), preferred, most),
        submitted=submitted,
        since=submitted,
        priority=draw(st.integers(-3, 3)),
        weight=draw(st.sampled_from([0.1, 1.0, 1.0, 2.5, 300.0])),
        rates=rates,
        expected_seconds=draw(st.none() | st.floats(0, 1e5)),
    )


@st.composite
def _started(draw: st.DrawFn, job: Job) -> Job:
    started = job.submitted + draw(st.floats(0, 500))
    since = started if draw(st.booleans()) else draw(st.floats(started, NOW))
    ran = draw(st.floats(0, NOW - started))
    total = draw(st.none() | st.just(0.0) | st.floats(1, 1e6))
    done = draw(st.none() | st.floats(0, 1e6))
    return replace(
        job, started=started, since=since, run_seconds=ran, steps_done=done, steps_total=total
    )


def carried_out(jobs: Sequence[Job], allocation: Allocation, now: float) -> list[Job]:
    """Return the jobs as they are right after an allocation."""
    after = []
    for job in jobs:
        grant = allocation.grants.get(job.id, NO_GRANT)
        state = "running" if grant else "waiting" if job.started is None else "paused"
        if state != job.state:
            started = now if job.started is None else job.started
            used = None
            job = replace(job, state=state, since=now, started=started, used_cpus=used)
        after.append(replace(job, grant=grant))
    return after
