# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A simulated host: the controller's decision loop around simulated jobs, in virtual time.

The loop, decisions, accounting, learning and measuring are the controller's own code. Only the
jobs and the time are simulated.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tf_malleable.api.schema.history import JobRecord, Span
from tf_malleable.model import Allocation, Grant, Machine, Shape
from tf_malleable.model.need import UNLIMITED, Need
from tf_malleable.policies.policy import Policy
from tf_malleable.scheduling.decision import admission_order
from tf_malleable.scheduling.decision.decision import Candidate, Change
from tf_malleable.scheduling.decision.decision_loop import DecisionLoop
from tf_malleable.scheduling.records import metrics, time_accounts
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import Knowledge, passed_on
from tf_malleable.scheduling.records.metrics import Measurements
from tf_malleable.scheduling.records.usage import SAMPLE_SECONDS
from tf_malleable.simulate.engine.clock import LAST, Timer, VirtualClock
from tf_malleable.simulate.engine.foresight import NONE, Clairvoyance
from tf_malleable.simulate.engine.job import SimulatedJob
from tf_malleable.simulate.engine.progress_reports import INTERVAL_SECONDS, Reports
from tf_malleable.simulate.engine.service import SimulatedService
from tf_malleable.simulate.engine.task import Task

# Simulated jobs need nothing but cores.
_NEED = Need()
# Number of successive decisions, with nothing running or to come, that mean an endless wait.
_IN_VAIN = 1000


class SimulationError(Exception):
    """A policy cannot continue; the message is one sentence, without the policy's name."""


def waits_for_ever(jobs: int) -> SimulationError:
    """Return the error of a policy that lets this many jobs wait forever."""
    return SimulationError(f"it never gives cores to {jobs} waiting job{'s' if jobs > 1 else ''}")


@dataclass(frozen=True)
class Delays:
    """Delays from a decision until it is in force, in seconds.

    Attributes:
        resize: Resize of a running job, which acknowledges it at a task's end.
        pause: Pause of a job, until its processes stand still.
        resume: Resumption of a paused job, or start of a new one.
    """

    resize: float = 0.003
    pause: float = 0.003
    resume: float = 0.003


@dataclass
class Counts:
    """Numbers of events.

    Attributes:
        arrivals: Jobs that arrived.
        ends: Jobs that ended.
        changes: Changes of grants.
        decisions: Calls of the policy.
        rejected: Jobs that were refused, because they can never fit or must not wait.
    """

    arrivals: int = 0
    ends: int = 0
    changes: int = 0
    decisions: int = 0
    rejected: int = 0

    @property
    def events(self) -> int:
        """Number of arrivals, ends and changes of grants."""
        return self.arrivals + self.ends + self.changes


@dataclass(frozen=True)
class SimulationConditions:
    """Conditions of a simulation that are the same for all hosts.

    Attributes:
        seed: Seed of the noise and of the times of reports; the same seed gives the same result.
        noise: Standard deviation of the logarithm of a job's speed with a number of cores,
            beside its curve.
        delays: Durations of the controller's actions.
        foresight: What policies know of jobs beside what a controller knows.
    """

    seed: int = 0
    noise: float = 0.0
    delays: Delays = field(default_factory=Delays)
    foresight: Clairvoyance = NONE


@dataclass(frozen=True)
class HostObserver:
    """Calls about the jobs of a host.

    Attributes:
        on_end: Called with the metrics of each job that has ended.
        on_span: Called with each span of each job; None if spans are not needed.
    """

    on_end: Callable[[JobRecord], None]
    on_span: Callable[[Span], None] | None = None


class _VirtualTimers:
    """Timers of a decision loop in virtual time."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock, self.at = clock, clock.at

    def now(self) -> float:
        return self._clock.now

    def soon(self, call: Callable[[], None]) -> Timer:
        return self._clock.at(self._clock.now, call, LAST)


class Host:
    """A host with a controller, in virtual time."""

    def __init__(
        self,
        clock: VirtualClock,
        machine: Machine,
        policy: Policy,
        knowledge: Knowledge,
        conditions: SimulationConditions,
        uids: Callable[[str], int],
        observer: HostObserver,
    ) -> None:
        """Create a host without jobs.

        Args:
            clock: Virtual time.
            machine: CPUs of the host.
            policy: Policy that shares them out.
            knowledge: What was learned from earlier jobs; it continues to learn.
            conditions: Conditions of the simulation.
            uids: Returns the user id of a name.
            observer: Calls about the jobs.
        """
        self.machine = machine
        self.jobs: dict[str, SimulatedJob] = {}
        self.counts = Counts()
        self._clock = clock
        self._policy = policy
        self._knowledge = knowledge
        self._delays = conditions.delays
        self._foresight = conditions.foresight
        self._seed, self._noise = conditions.seed, conditions.noise
        self._uids = uids
        self._on_end, self._on_span = observer.on_end, observer.on_span
        self._ends: dict[str, Timer] = {}
        self._news: dict[str, Timer] = {}
        self._alike: dict[tuple[int, str], set[str]] = {}
        self._sampled: dict[str, SimulatedJob] = {}
        self._sampling: Timer | None = None
        # Part of the time of each shared CPU that its owner takes.
        self._taken: dict[int, float] = {}
        self._loop = DecisionLoop(_VirtualTimers(clock), self)
        self._react_soon = self._loop.request
        self._in_vain = 0

    @property
    def free(self) -> int:
        """Number of cores that no job has."""
        used = sum(len(job.record.grant.own) for job in self.jobs.values())
        return len(self.machine.cpus) - used

    def arrive(self, name: str, task: Task) -> bool:
        """Let a job arrive; return whether it was accepted."""
        self.counts.arrivals += 1
        now, cores = self._clock.now, len(self.machine.cpus)
        if task.shape.min > cores or not (task.queue or task.shape.min <= self.free):
            self.counts.rejected += 1
            return False
        most = min(task.shape.max, cores)
        record = Record(
            id=name,
            name=task.name,
            command=task.command,
            process=None,
            uid=self._uids(task.user),
            shape=Shape(task.shape.min, min(task.shape.preferred, most), most),
            priority=task.priority,
            weight=task.weight,
            submitted=now,
            entered=now,
            since=now,
            expected=task.expected,
            slo=task.slo,
        )
        lessons = self._knowledge.lessons(record)
        kind = SimulatedJob if task.requests is None else SimulatedService
        job = kind(
            task, record, lessons, self._noise_of(name), self._reports_of(name), self._foresight
        )
        self.jobs[name] = job
        self._alike.setdefault((record.uid, record.program), set()).add(name)
        self._react_soon()
        return True

    def _noise_of(self, name: str) -> Callable[[int], float]:
        if not self._noise:
            return lambda cores: 1.0
        seed, noise = self._seed, self._noise
        return lambda cores: math.exp(random.Random(f"{seed} {name} {cores}").gauss(0.0, noise))

    def _reports_of(self, name: str) -> Reports:
        drawn = random.Random(f"{self._seed} {name} reports").random()
        return Reports(self._clock.now + drawn * INTERVAL_SECONDS)

    # Triggers.

    def _phase_over(self, job: SimulatedJob) -> None:
        if job.end_phase(self._clock.now):
            self._end(job)
            return
        self._sample_if_needed(job)
        self._expect_end(job)
        self._expect_news(job)
        if job.has_news:
            self._react_soon()

    def _expect_end(self, job: SimulatedJob) -> None:
        name = job.record.id
        if (event := self._ends.pop(name, None)) is not None:
            event.cancel()
        at = job.phase_ends
        if at < math.inf:
            self._ends[name] = self._clock.at(at, lambda: self._phase_over(job))

    def _expect_news(self, job: SimulatedJob) -> None:
        """Schedule a look at the job's progress at the time of the next news."""
        name = job.record.id
        if (event := self._news.pop(name, None)) is not None:
            event.cancel()
        at = job.tells_at
        if at < math.inf:
            self._news[name] = self._clock.at(at, lambda: self._look(job))

    def _look(self, job: SimulatedJob) -> None:
        job.look(self._clock.now)
        if job.has_news:
            self._react_soon()
        self._expect_news(job)

    def _sample_if_needed(self, job: SimulatedJob) -> None:
        if job.samples_left and job.record.grant:
            self._sampled[job.record.id] = job
            self._sample_soon()
        else:
            self._sampled.pop(job.record.id, None)

    def _sample_soon(self) -> None:
        if self._sampling is None:
            tick = math.floor(self._clock.now / SAMPLE_SECONDS + 1e-6) + 1
            self._sampling = self._clock.at(tick * SAMPLE_SECONDS, self._sample)

    def _sample(self) -> None:
        self._sampling = None
        now, news = self._clock.now, False
        for name, job in [*self._sampled.items()]:
            job.sample(now)
            news = news or job.has_news
            if not job.samples_left:
                del self._sampled[name]
        self._share_cores(now)
        if news:
            self._react_soon()
        if self._sampled:
            self._sample_soon()

    def _share_cores(self, now: float) -> None:
        """Have owners preempt the jobs on cores that they share, as much as they computed lately.

        An owner computes there only as far as its other cores do not suffice.
        """
        before, self._taken = self._taken, {}
        for job in self._sampled.values():
            grant = job.record.grant
            if shared := grant.cpus & grant.lent:
                rest = len(grant.cpus) - len(shared)
                part = max(0.0, (job.usage.used or 0.0) - rest) / len(shared)
                self._taken.update(dict.fromkeys(shared, min(1.0, part)))
        for job in self.jobs.values() if self._taken or before else ():
            cpus = job.record.grant.cpus - job.record.grant.lent
            lost = sum(self._taken.get(cpu, 0.0) for cpu in cpus)
            if job.share(1 - lost / len(cpus) if lost else 1.0, now):
                self._expect_end(job)
                self._expect_news(job)

    # Effects of the decision loop.

    def decide(self, now: float) -> Allocation:
        """Return the allocation of all live jobs; see Effects.

        Raises:
            SimulationError: The policy cannot continue.
        """
        self.counts.decisions += 1
        candidates = []
        for job in self.jobs.values():
            if job.record.state == "running":
                job.look(now)
                job.note_decision()
            candidates.append(Candidate(job.as_job(now), None, False))
        allocation = self._ask(candidates, now)
        review_at = allocation.review_at
        if review_at is not None and review_at < now:
            raise SimulationError(f"it asks for a review {now - review_at:g} s in the past")
        is_idle = bool(self.jobs) and not any(grant for grant in allocation.grants.values())
        self._in_vain = self._in_vain + 1 if is_idle else 0
        if self._in_vain > _IN_VAIN:
            raise waits_for_ever(len(self.jobs))
        return allocation

    def grants(self) -> tuple[Mapping[str, Grant], Collection[str]]:
        """Return the current grants; see Effects."""
        return {name: job.record.grant for name, job in self.jobs.items()}, ()

    def carry_out(self, found: Sequence[Change], now: float) -> None:
        """Carry out changes; see Effects."""
        for change in found:
            self._apply(change, now)
        self._share_cores(now)

    def _ask(self, candidates: list[Candidate], now: float) -> Allocation:
        try:
            found = admission_order.decide(
                self._policy, candidates, lambda _: _NEED, UNLIMITED, self.machine, now
            )
        except Exception as error:
            said = " ".join(str(error).split())
            raise SimulationError(f"{type(error).__name__}: {said}") from error
        return found.allocation

    def _apply(self, change: Change, now: float) -> None:
        job = self.jobs[change.job]
        self.counts.changes += 1
        if not change.grant:
            delay = self._delays.pause
        elif job.record.state == "running":
            delay = self._delays.resize
        else:
            delay = self._delays.resume
        before = job.take(change.grant, now, delay)
        self._note(before, now)
        self._expect_end(job)
        self._sample_if_needed(job)
        self._expect_news(job)

    def _note(self, before: Record, now: float) -> None:
        if self._on_span is not None and before.since < now:
            self._on_span(time_accounts.span(before, now))

    # Ends.

    def _end(self, job: SimulatedJob) -> None:
        now, name = self._clock.now, job.record.id
        self.counts.ends += 1
        self._note(job.record, now)
        record = time_accounts.up_to(job.record, now)
        failed = job.task.fails_at is not None
        ended = metrics.ended(
            record,
            now,
            "failed" if failed else "finished",
            int(failed),
            Measurements(job.cpu_seconds, job.speed, course=job.course, latency=job.latency),
            user=job.task.user,
        )
        del self.jobs[name]
        for events in (self._ends, self._news):
            if (event := events.pop(name, None)) is not None:
                event.cancel()
        self._sampled.pop(name, None)
        alike = self._alike[record.uid, record.program]
        alike.discard(name)
        start = job.course.first_step_seconds
        self._knowledge.learn(record, job.speed.rates, start=start, finished=not failed)
        known = self._knowledge.lessons(record)
        for other in alike:
            live = self.jobs[other]
            live.learn(passed_on(known, record, live.record, live.lessons))
        self._on_end(ended)
        self._react_soon()
