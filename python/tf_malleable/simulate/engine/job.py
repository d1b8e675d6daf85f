# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A simulated job: the progress of its program, and what the controller measures of it.

Between two events the job's speed is constant, so it advances from one to the next in one step.
Values that the real controller samples continuously are computed only where they can change:
at changes, and for the three samples after them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal, get_args

from tf_malleable.api.schema.services.request_latency import RequestLatency
from tf_malleable.model import Grant, Job
from tf_malleable.scheduling.decision.policy_input import Known, job_of, rates_of
from tf_malleable.scheduling.records import time_accounts
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import Lessons
from tf_malleable.scheduling.records.phases import Course
from tf_malleable.scheduling.records.speeds import SETTLING_SECONDS, Speedometer
from tf_malleable.scheduling.records.usage import FULL, SAMPLE_SECONDS, SAMPLES, Usage
from tf_malleable.simulate.engine.foresight import NONE, Clairvoyance
from tf_malleable.simulate.engine.progress_reports import INTERVAL_SECONDS, Reports
from tf_malleable.simulate.engine.task import Task

Phase = Literal["starting", "fetching", "working", "waiting", "ending", "over"]
_ASLEEP: Final = ("fetching", "waiting")

# A job that wakes up on CPUs it has lent shares one with the borrower.
ON_A_LENT_CPU: Final = 0.5
# A remaining work or time within the rounding error.
_NOTHING = 1e-9
# Later than any rounding error.
_LATER = 1e-6


class SimulatedJob:
    """A job of a simulated host. Times are in seconds of virtual time.

    Attributes:
        task: Task to simulate.
        record: Record, as the controller keeps it.
        lessons: Lessons of earlier jobs.
        speed: Progress and measured speeds.
        usage: CPUs that the job keeps busy.
        last_level: Level at the last decision.
        known: Knowledge of the job's speed at the last decision.
        cpu_seconds: CPU time used.
        samples_left: Number of samples until the measured usage is constant.
    """

    def __init__(
        self,
        task: Task,
        record: Record,
        lessons: Lessons,
        factor: Callable[[int], float],
        reports: Reports,
        foresight: Clairvoyance = NONE,
    ) -> None:
        """Create a job that arrives.

        Args:
            task: Task to simulate.
            record: Record of the job at its arrival.
            lessons: Lessons of earlier jobs.
            factor: Returns the job's speed relative to its curve, for a number of cores.
            reports: Times of the agent's reports.
            foresight: What policies know of the job beside what a controller knows.
        """
        self.task = task
        self.record = record
        self.lessons = lessons
        self.speed = Speedometer()
        self.usage = Usage()
        self.last_level = FULL
        self.known = Known()
        self.cpu_seconds = 0.0
        self.samples_left = 0
        self._factor = factor
        self._reports = reports
        self._foresight = foresight
        self._speeds: dict[int, float] = {}
        self._phase: Phase = "starting"
        self._waited = 0.0
        self._left = task.starting
        self._work_left = task.work
        self._at = record.submitted
        # Number of cores really used; -1 for none, 0 for one that is lent to others.
        self._cores = -1
        self._next_cores = -1
        self._switch_at = math.inf
        self._rate = 0.0
        self._use = 0.0
        # Part of its cores' time that owners who preempt it leave.
        self._share = 1.0
        self._steady_since = self._at
        self._idle: Job | None = None
        # Seconds with cores, by phase.
        self._spent: dict[Phase, float] = dict.fromkeys(get_args(Phase), 0.0)
        self._waits = 0
        if not self._left:
            self._enter_next()

    # The course of the job.

    def take(self, grant: Grant, now: float, delay: float) -> Record:
        """Accept a new grant, in force after `delay` seconds; return the record before it."""
        self.advance(now)
        before = self.record
        self.record = time_accounts.granted(before, grant, now)
        if not grant or not grant.cpus <= before.grant.cpus:
            # Usage of the old CPUs tells nothing about the new ones.
            self.usage.forget()
        elif not self._is_full(self._cores):
            self._prepare_samples(now)
        self._next_cores = len(grant.cpus) if grant else -1
        self._switch_at = now + delay
        if not grant:
            self.speed = self.speed.change(0, now)
        self._idle = None
        self._expect_samples(self._next_cores)
        if not delay:
            self.advance(now)
        return before

    def share(self, part: float, now: float) -> bool:
        """Note the part of its cores' time that their owners leave; return whether it is new."""
        if part == self._share:
            return False
        self.advance(now)
        self._report(now)
        self._prepare_samples(now)
        self._share = part
        self._steady()
        return True

    def learn(self, lessons: Lessons) -> None:
        """Replace the lessons of earlier jobs."""
        if lessons != self.lessons:
            self.lessons = lessons
            self._idle = None

    def advance(self, now: float) -> None:
        """Advance the job to `now`; the caller takes care of phases that end in between."""
        if self._switch_at <= now:
            self._go_on(self._switch_at)
            self._report(self._switch_at)
            self._cores = self._next_cores
            self.speed = self.speed.change(max(0, self._cores), self._switch_at)
            self._switch_at = math.inf
            self._idle = None
            self._steady()
        self._go_on(now)

    def _go_on(self, until: float) -> None:
        seconds = until - self._at
        if seconds > 0:
            done = self._rate * seconds
            self._left -= done
            if self._phase == "working":
                self._work_left -= done
            self.cpu_seconds += self._use * seconds
            if self._phase in _ASLEEP:
                self._waited += seconds
            if self.record.state == "running":
                self._spent[self._phase] += seconds
            self._at = until

    def end_phase(self, now: float) -> bool:
        """Begin the next phase; return whether the job has ended.

        Call this at the time given by `phase_ends`.
        """
        self.advance(now)
        self._left = 0.0
        if self._work_left <= _NOTHING:
            self._work_left = 0.0
        self._report(now)
        self._prepare_samples(now)
        was_full = self._is_full(self._cores)
        self._enter_next()
        self._steady()
        if self._phase == "over":
            self._report_steps(now, now)  # As agents do when their program exits.
        cores = self._next_cores if self._switch_at < math.inf else self._cores
        if was_full and self._is_full(cores):
            self.usage.forget()
        self._expect_samples(cores)
        return self._phase == "over"

    def _enter_next(self) -> None:
        """Enter the next phase with a duration above 0."""
        task = self.task
        while self._left <= _NOTHING:
            if self._phase == "working" and self._work_left > _NOTHING:
                self._phase, self._left = "waiting", task.idle
                self._waits += 1
            elif self._phase == "starting" and task.fetching:
                self._phase, self._left = "fetching", task.fetching
            elif self._phase in ("starting", *_ASLEEP) and self._work_left > _NOTHING:
                most = task.busy if task.idle else math.inf
                self._phase, self._left = "working", min(most, self._work_left)
            elif self._phase != "ending" and task.fails_at is None:
                self._phase, self._left = "ending", task.ending
            else:
                self._phase = "over"
                return

    def _steady(self) -> None:
        """Note speed and CPU use, which now stay constant for a while."""
        self._steady_since = self._at
        self._rate, self._use = self._pace_beside(self._cores)

    def _pace(self, cores: int) -> tuple[float, float]:
        """Return the speed of the phase and its CPU use, with these cores."""
        if self._phase in _ASLEEP:  # Input arrives even while its processes stand still.
            return 1.0, 0.0
        if cores < 0 or self._phase == "over":
            return 0.0, 0.0
        if self._phase != "working":
            return (1.0, 1.0) if cores else (ON_A_LENT_CPU, ON_A_LENT_CPU)
        if cores:
            return self._speed_with(cores), float(cores)
        return ON_A_LENT_CPU * self._speed_with(1), ON_A_LENT_CPU

    def _pace_beside(self, cores: int) -> tuple[float, float]:
        """Return the same beside the owners of these cores."""
        rate, use = self._pace(cores)
        return (rate * self._share, use * self._share) if use else (rate, use)

    def _speed_with(self, cores: int) -> float:
        speed = self._speeds.get(cores)
        if speed is None:
            speed = self.task.curve.speedup(cores) * self._factor(cores)
            self._speeds[cores] = speed
        return speed

    @property
    def phase_ends(self) -> float:
        """Time at which the phase ends if the grant stays; infinite if the job does not run."""
        if self._switch_at == math.inf:
            return self._at + self._left / self._rate if self._rate else math.inf
        before = self._rate * (self._switch_at - self._at)
        if before >= self._left:
            return self._at + self._left / self._rate
        rate, _ = self._pace_beside(self._next_cores)
        return self._switch_at + (self._left - before) / rate if rate else math.inf

    # What the controller measures.

    def _report(self, now: float) -> None:
        """Report steps as of the agent's last report."""
        last = self._reports.until(now)
        if last < self._steady_since or last <= self.speed.reported_at:
            return
        if self.speed.steps is not None:
            # Of the reports in between, this one shows when the speed was settled.
            settled = self._reports.since(self.speed.changed_at + SETTLING_SECONDS)
            if max(self.speed.reported_at, self._steady_since - _NOTHING) < settled < last:
                self._report_steps(now, settled)
        self._report_steps(now, last)

    def _report_steps(self, now: float, at: float) -> None:
        """Report the steps done until `at`; the speed has been constant from `at` to `now`."""
        task = self.task
        if task.steps is None or self._phase in ("starting", "fetching"):
            return
        rate = self._rate if self._phase == "working" else 0.0
        work = task.work - self._work_left - rate * (now - at)
        done = max(work / task.seconds * task.steps, self.speed.steps or 0.0)
        if done >= 1:
            waited = self._waited - (now - at if self._phase in _ASLEEP else 0.0)
            self._waited -= waited
            total = task.steps if task.told is None else task.told
            self.speed = self.speed.report(done, total, at, waited)

    def _prepare_samples(self, now: float) -> None:
        """Note the samples before a change, which are all equal."""
        if self.samples_left or self._cores < 0:
            return
        self.usage.forget()
        last = math.floor(now / SAMPLE_SECONDS)
        for tick in range(last - SAMPLES, last + 1):
            at = tick * SAMPLE_SECONDS
            if at >= self._steady_since:
                self._add_sample(self.cpu_seconds - self._use * (now - at), at)

    def _expect_samples(self, cores: int) -> None:
        """Have the CPU use sampled, unless the job keeps all its cores busy, as before."""
        is_known = self._is_full(cores) and self.usage.wanted is None
        self.samples_left = 0 if is_known else SAMPLES + 1

    def _is_full(self, cores: int) -> bool:
        """Return whether the job keeps this many cores busy in its phase."""
        return 0 < cores <= self._pace(cores)[1]

    def sample(self, now: float) -> None:
        """Sample the CPU use."""
        self.advance(now)
        self._add_sample(self.cpu_seconds, now)
        self.samples_left -= 1
        if not self.samples_left and self.level == FULL:
            self.usage.forget()

    def _add_sample(self, cpu_seconds: float, at: float) -> None:
        runnable = 0.0
        if self._cores == 0 and self._phase not in _ASLEEP:
            runnable = 1.0
        elif self._share < 1:
            runnable = self._pace(self._cores)[1]
        self.usage.add(cpu_seconds, runnable, at)

    @property
    def level(self) -> int:
        """CPUs wanted, in tenths, or FULL."""
        if self.record.state != "running":
            return FULL
        return self.usage.level(len(self.record.grant.cpus) or len(self.record.grant.lent))

    @property
    def has_news(self) -> bool:
        """Whether a policy might decide differently with the current knowledge of the speed."""
        return self.level != self.last_level or self.known.is_outdated_by(self.speed, self.lessons)

    def note_decision(self) -> None:
        """Note the knowledge of the speed at a decision."""
        self.last_level = self.level
        if self.speed is not self.known.speed:
            self.known = Known(self.speed, rates_of(self.speed, self.lessons))

    def look(self, now: float) -> None:
        """Report progress if a report is due."""
        self.advance(now)
        self._report(now)

    @property
    def tells_at(self) -> float:
        """Time of the next report with news; infinite if there is none."""
        task = self.task
        if task.steps is None or self._phase != "working" or self.record.state != "running":
            return math.inf
        is_switching = self._switch_at < math.inf
        if self.speed.steps is None:
            begin = max(self._at, self._switch_at) if is_switching else self._at
            rate, _ = self._pace(self._next_cores)
            step = task.seconds / task.steps - (task.work - self._work_left)
            return self._reports.since(begin + max(0.0, step) / rate + _LATER)
        cores = max(0, self._next_cores)
        if not cores or self.speed.knows(cores):
            return math.inf
        since = self._switch_at if is_switching else self.speed.changed_at
        settled = self._reports.since(since + SETTLING_SECONDS)
        return max(settled, self._reports.until(self._at)) + INTERVAL_SECONDS

    @property
    def course(self) -> Course:
        """Phases of the job's time with cores, exact because they are simulated."""
        reports, fetching = self.speed.steps is not None, self._spent["fetching"]
        return Course(
            first_step_seconds=self._spent["starting"] + fetching if reports else None,
            first_idle_seconds=fetching if reports else None,
            last_step_seconds=self._spent["ending"] if reports else None,
            idle_seconds=self._spent["waiting"] + (0.0 if reports else fetching),
            idle_phases=self._waits + (0 if reports else fetching > 0),
        )

    @property
    def latency(self) -> RequestLatency | None:
        """Latencies of the requests of a service; None for other jobs."""
        return None

    def as_job(self, now: float) -> Job:
        """Return the job as a policy sees it."""
        if self.record.state != "running":
            if self._idle is None:
                self._idle = self._as_job(now, None)
            return self._idle
        return self._as_job(now, self.usage.wanted)

    def _as_job(self, now: float, used: float | None) -> Job:
        job = job_of(self.record, self.speed, self.lessons, used, now)
        if self._foresight == NONE:
            return job
        return self._foresight.added(job, self.task, self._work_left)
