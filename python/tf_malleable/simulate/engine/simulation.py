# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Simulation of a workload to its end, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, chain

import msgspec

from tf_malleable.api.schema.history import History, JobRecord, Span
from tf_malleable.model import Machine
from tf_malleable.policies import registry
from tf_malleable.policies.policy import Policy
from tf_malleable.scheduling.records import metrics
from tf_malleable.scheduling.records.lessons import Knowledge
from tf_malleable.simulate.engine.clock import VirtualClock
from tf_malleable.simulate.engine.foresight import NONE, Clairvoyance
from tf_malleable.simulate.engine.host import (
    Counts,
    Delays,
    Host,
    HostObserver,
    SimulationConditions,
    waits_for_ever,
)
from tf_malleable.simulate.engine.host_selection import Load, choose
from tf_malleable.simulate.engine.task import Task

_FIRST_UID = 1000


@dataclass(frozen=True)
class Scenario:
    """Machines and conditions of a simulation.

    Attributes:
        machines: Machine of each host.
        seed: Seed of the noise and of the times of reports; the same seed gives the same result.
        noise: Standard deviation of the logarithm of a job's speed with a number of cores,
            beside its curve.
        delays: Durations of the controller's actions.
        foresight: What policies know of jobs beside what a controller knows.
    """

    machines: tuple[Machine, ...]
    seed: int = 0
    noise: float = 0.0
    delays: Delays = field(default_factory=Delays)
    foresight: Clairvoyance = NONE

    @property
    def cores(self) -> int:
        """Number of cores of all hosts."""
        return sum(len(machine.cpus) for machine in self.machines)


@dataclass(frozen=True)
class Outcome:
    """Result of a simulated workload.

    Attributes:
        history: Ended jobs, in the form of `tfm history`; ids count arrivals from 1, and
            times are in seconds of virtual time. Spans only if they were requested. Each host's
            CPUs are numbered after those of the hosts before it.
        counts: Numbers of events, of all hosts.
        hosts: Part of the history of each host.
    """

    history: History
    counts: Counts
    hosts: tuple[History, ...]


def simulate(
    tasks: Sequence[Task],
    policy: str | Policy,
    scenario: Scenario,
    *,
    knowledge: Knowledge | None = None,
    spans: bool = False,
    on_progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Return the result of a workload.

    Args:
        tasks: Jobs, in any order.
        policy: Policy that shares out the cores, or its name and options.
        scenario: Machines and conditions.
        knowledge: What the controller has learned before; it continues to learn.
        spans: Whether to keep the spans, of which there may be many.
        on_progress: Called now and then with the number of jobs that have ended.

    Raises:
        ValueError: There is no such policy.
        SimulationError: The policy cannot continue; the message says why.
    """
    run = _Run(policy, scenario, knowledge or Knowledge(), spans, on_progress)
    return run.to_the_end(sorted(tasks, key=lambda task: task.at))


class _Run:
    def __init__(
        self,
        policy: str | Policy,
        scenario: Scenario,
        knowledge: Knowledge,
        spans: bool,
        on_progress: Callable[[int], None] | None,
    ) -> None:
        self._scenario = scenario
        self._clock = VirtualClock()
        self._records: list[list[JobRecord]] = [[] for _ in scenario.machines]
        self._spans: list[list[Span]] = [[] for _ in scenario.machines]
        self._ended = 0
        self._users: dict[str, int] = {}
        self._on_progress = on_progress
        self._hosts = [
            Host(
                self._clock,
                machine,
                registry.create(policy) if isinstance(policy, str) else policy,
                knowledge,
                SimulationConditions(
                    scenario.seed, scenario.noise, scenario.delays, scenario.foresight
                ),
                self._uid,
                HostObserver(
                    partial(self._note_end, index),
                    partial(_keep, self._spans[index], first) if spans else None,
                ),
            )
            for index, (machine, first) in enumerate(
                zip(scenario.machines, _first_cpus(scenario.machines), strict=True)
            )
        ]

    def _uid(self, user: str) -> int:
        return self._users.setdefault(user, _FIRST_UID + len(self._users))

    def _note_end(self, host: int, record: JobRecord) -> None:
        self._records[host].append(record)
        self._ended += 1
        if self._on_progress is not None:
            self._on_progress(self._ended)

    def to_the_end(self, tasks: Sequence[Task]) -> Outcome:
        """Let all jobs arrive, and return the result once all have ended."""
        if tasks:
            self._expect(tasks, 0)
        while self._clock.step():
            pass
        if left := sum(len(host.jobs) for host in self._hosts):
            raise waits_for_ever(left)
        hosts = tuple(
            _history(records, spans, len(machine.cpus))
            for records, spans, machine in zip(
                self._records, self._spans, self._scenario.machines, strict=True
            )
        )
        history = _history(chain(*self._records), chain(*self._spans), self._scenario.cores)
        return Outcome(history, self._counts(), hosts)

    def _expect(self, tasks: Sequence[Task], index: int) -> None:
        def arrive() -> None:
            task = tasks[index]
            self._host_for(task).arrive(str(index + 1), task)
            if index + 1 < len(tasks):
                self._expect(tasks, index + 1)

        self._clock.at(tasks[index].at, arrive)

    def _host_for(self, task: Task) -> Host:
        if len(self._hosts) == 1:
            return self._hosts[0]
        chosen = choose(task.shape, [_load(host) for host in self._hosts])
        return self._hosts[chosen or 0]

    def _counts(self) -> Counts:
        every = [host.counts for host in self._hosts]
        return Counts(
            arrivals=sum(counts.arrivals for counts in every),
            ends=sum(counts.ends for counts in every),
            changes=sum(counts.changes for counts in every),
            decisions=sum(counts.decisions for counts in every),
            rejected=sum(counts.rejected for counts in every),
        )


def _first_cpus(machines: Sequence[Machine]) -> list[int]:
    """Return the offset of each machine's CPU ids that makes the ids unique."""
    lengths = [1 + max(machine.cpuset, default=-1) for machine in machines]
    return list(accumulate(lengths, initial=0))[:-1]


def _keep(spans: list[Span], first: int, span: Span) -> None:
    if first:
        span = msgspec.structs.replace(span, cpus=[first + cpu for cpu in span.cpus])
    spans.append(span)


def _history(records: Iterable[JobRecord], spans: Iterable[Span], cores: int) -> History:
    in_order = sorted(records, key=lambda record: int(record.id))
    by_end = sorted(spans, key=lambda span: span.end)
    return History(in_order, by_end, metrics.summary(in_order, cores))


def _load(host: Host) -> Load:
    shapes = [job.record.shape for job in host.jobs.values()]
    return Load(
        len(host.machine.cpus),
        sum(shape.preferred for shape in shapes),
        sum(shape.min for shape in shapes),
    )
