# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs a policy to the end of a workload in virtual time: same object, no waiting.

Jobs speed up by Amdahl's law, can have phases in which they use no CPU, and report
steps. Every allocation is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tf_malleable.model import NO_GRANT, Allocation, Grant, Job, JobState, Machine, Rate, Shape
from tf_malleable.policies.check import check
from tf_malleable.policies.policy import Policy

STEPS = 100.0
ANY_SHAPE = Shape(1, 1, 64)
# As in the controller, CPU use is seen a little later, and speeds only once settled.
_SAMPLE_SECONDS = 0.25
_SETTLE_SECONDS = 1.0
_EPSILON = 1e-9
_AWAKE_ON_A_LENT_CPU = 0.5


@dataclass(frozen=True)
class Work:
    """A job to simulate.

    Attributes:
        id: Its name.
        arrival: When it is submitted.
        seconds: Its work, in seconds on one core.
        serial: The part of it that more cores do not shorten, 0 … 1.
        shape: As submitted.
        priority: As submitted.
        weight: As submitted.
        idle: Seconds without CPU after each `busy` seconds of work, 0 for none.
        busy: Seconds of work between two idle phases.
        reports: Whether it reports steps.
        known: Numbers of cores whose speed is known from earlier jobs.
        foreseen: Whether the same command ran before, on one core.
        startup: Seconds before its work in which it uses one core and reports nothing, as a
            program that imports TensorFlow.
    """

    id: str
    arrival: float
    seconds: float
    serial: float = 0.1
    shape: Shape = ANY_SHAPE
    priority: int = 0
    weight: float = 1.0
    idle: float = 0.0
    busy: float = 1.0
    reports: bool = True
    known: tuple[int, ...] = ()
    foreseen: bool = False
    startup: float = 0.0

    def speedup(self, cores: float) -> float:
        if cores < 1:
            return cores
        return 1 / (self.serial + (1 - self.serial) / cores)


@dataclass(frozen=True)
class Outcome:
    """How a job fared."""

    arrival: float
    started: float
    ended: float
    resizes: int

    @property
    def turnaround(self) -> float:
        return self.ended - self.arrival


@dataclass
class _Live:
    work: Work
    state: JobState = "waiting"
    since: float = 0.0
    started: float | None = None
    grant: Grant = NO_GRANT
    granted_at: float = 0.0
    run_seconds: float = 0.0
    done: float = 0.0
    startup_left: float = 0.0
    idle_left: float = 0.0
    next_idle: float = 0.0
    used: float | None = None
    resizes: int = 0
    resized: float | None = None
    rates: dict[int, float] = field(default_factory=dict)

    @property
    def speed(self) -> float:
        """Work done a second."""
        if self.state != "running" or self.startup_left > 0 or self.idle_left > 0:
            return 0.0
        return self.work.speedup(len(self.grant.cpus) or _AWAKE_ON_A_LENT_CPU)

    @property
    def next_event(self) -> float:
        """Seconds until it ends or its phase does, if nothing changes."""
        if self.state != "running":
            return float("inf")
        if self.startup_left > 0 or self.idle_left > 0:
            return self.startup_left or self.idle_left
        target = self.work.seconds
        if self.work.idle:
            target = min(target, self.next_idle)
        return (target - self.done) / self.speed

    def rate(self, cores: int) -> float:
        """Return steps per second, phases without CPU included, as in the controller."""
        work = self.work
        idle = work.idle * work.seconds / work.busy
        return STEPS / (work.seconds / work.speedup(cores) + idle)

    def as_job(self, now: float) -> Job:
        work = self.work
        reports = work.reports and self.run_seconds >= work.startup + _SETTLE_SECONDS
        return Job(
            id=work.id,
            shape=work.shape,
            submitted=work.arrival,
            priority=work.priority,
            weight=work.weight,
            state=self.state,
            since=self.since,
            grant=self.grant,
            started=self.started,
            resized=self.resized,
            run_seconds=self.run_seconds,
            used_cpus=self.used,
            steps_done=self.done / work.seconds * STEPS if reports else None,
            steps_total=STEPS if reports else None,
            rates=tuple(Rate(cores, rate) for cores, rate in sorted(self.rates.items())),
            expected_seconds=work.startup + work.seconds if work.foreseen else None,
        )

    def apply(self, grant: Grant, now: float) -> None:
        state: JobState = "running" if grant else "waiting" if self.started is None else "paused"
        if state != self.state:
            self.state, self.since, self.used = state, now, None
            if self.started is None:
                self.started = now
        elif state == "running" and len(grant.cpus) != len(self.grant.cpus):
            self.resizes, self.resized = self.resizes + 1, now
        if grant != self.grant:
            self.grant, self.granted_at = grant, now

    def advance(self, seconds: float, now: float) -> None:
        if self.state != "running":
            return
        self.run_seconds += seconds
        if self.startup_left > 0:
            self.startup_left = max(0.0, self.startup_left - seconds)
            if self.startup_left < _EPSILON:
                self.startup_left = 0.0
                self.granted_at = now  # Its speed is still to settle.
            return
        if self.idle_left > 0:
            self.idle_left -= seconds
            if self.idle_left < _EPSILON:
                self.idle_left = 0.0
                self.next_idle = self.done + self.work.busy
            return
        self.done += self.speed * seconds
        cores = len(self.grant.cpus)
        if self.work.reports and cores and now >= self.granted_at + _SETTLE_SECONDS - _EPSILON:
            self.rates[cores] = self.rate(cores)
        if self.work.idle and self.done >= self.next_idle - _EPSILON:
            self.idle_left = self.work.idle

    def sample(self) -> None:
        if self.state == "running":
            # Workers that wait for the serial part spin, so all CPUs are busy.
            busy = len(self.grant.cpus) or _AWAKE_ON_A_LENT_CPU
            if self.startup_left > 0:
                busy = min(1.0, busy)
            self.used = 0.0 if self.idle_left > 0 else float(busy)


def simulate(policy: Policy, works: Sequence[Work], machine: Machine) -> dict[str, Outcome]:
    """Return how each job fared, by id."""
    return dict(_events(policy, works, machine))


def _events(
    policy: Policy, works: Sequence[Work], machine: Machine
) -> Iterator[tuple[str, Outcome]]:
    coming = sorted(works, key=lambda work: work.arrival)
    live: list[_Live] = []
    now = 0.0
    horizon = coming[-1].arrival + 100 * sum(work.seconds + work.idle for work in works) + 1000
    while coming or live:
        while coming and coming[0].arrival <= now + _EPSILON:
            work = coming.pop(0)
            new = _Live(work, since=now, next_idle=work.busy, startup_left=work.startup)
            new.rates = {cores: new.rate(cores) for cores in work.known}
            live.append(new)
        allocation = _decide(policy, live, machine, now)
        for job in live:
            job.apply(allocation.grants.get(job.work.id, NO_GRANT), now)
        step = min((job.next_event for job in live), default=float("inf"))
        if coming:
            step = min(step, coming[0].arrival - now)
        if allocation.review_at is not None:
            assert allocation.review_at > now, "a review in the past"
            step = min(step, allocation.review_at - now)
        if any(job.work.idle or job.work.reports for job in live):
            step = min(step, _SAMPLE_SECONDS)
        assert step < float("inf"), f"{[job.work.id for job in live]} wait for ever"
        now += step
        assert now < horizon, f"{[job.work.id for job in live]} do not come to an end"
        for job in live:
            job.advance(step, now)
            job.sample()
            if job.done >= job.work.seconds - _EPSILON:
                assert job.started is not None
                yield job.work.id, Outcome(job.work.arrival, job.started, now, job.resizes)
        live = [job for job in live if job.done < job.work.seconds - _EPSILON]


def _decide(policy: Policy, live: Sequence[_Live], machine: Machine, now: float) -> Allocation:
    jobs = [job.as_job(now) for job in live]
    allocation = policy.allocate(jobs, machine, now)
    check(allocation, jobs, machine)
    return allocation


def makespan(outcomes: dict[str, Outcome]) -> float:
    return max(o.ended for o in outcomes.values()) - min(o.arrival for o in outcomes.values())


def mean_turnaround(outcomes: dict[str, Outcome]) -> float:
    return sum(o.turnaround for o in outcomes.values()) / len(outcomes)
