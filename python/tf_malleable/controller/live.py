# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A live job while the controller runs: its record, and what is not worth keeping."""

from __future__ import annotations

import asyncio
import operator
import pwd
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from tf_malleable.controller import accounts
from tf_malleable.controller.container import Container
from tf_malleable.controller.learned import Lessons
from tf_malleable.controller.messages import GrantLine, JobStatus, Speed
from tf_malleable.controller.record import Record
from tf_malleable.controller.speeds import Speedometer, with_learned
from tf_malleable.model import Cpuset, Job, Rate

_SAMPLES = 3
# CPUs. With less than this idle a job uses all it has.
_BUSY = 0.2
# A program that was submitted opens its stream of grants within this time.
_CONNECT_SECONDS = 5.0
_NEVER = -1


@dataclass(frozen=True)
class Sample:
    """CPUs a job used for a moment, and CPUs it would have used if there were more."""

    used: float
    wanted: float


_USED = operator.attrgetter("used")
_WANTED = operator.attrgetter("wanted")


@dataclass
class Live:
    """Mutable, and the engine's alone. Times are Unix times in seconds.

    Attributes:
        record: What is kept on disk too.
        pidfd: Readable once the main process has ended; None as long as there is none.
        lessons: Of earlier jobs like it.
        tree: Its processes, when last looked.
        expected_until: A program that waits has to be connected from then on.
        agents: Serial numbers acknowledged, by pid of the connected processes.
        actual: CPUs it has acknowledged.
        published: When the present grant was published, on the monotonic clock;
            None once it is acknowledged.
        enforced: The present grant was carried out from outside.
        suspended: We have stopped its processes.
        stopped: Somebody else has.
        cancelled: We were asked to end it.
        kill_at: When to end it by force.
        reporter: Pid of the process whose steps count.
        speed: Its progress.
        cpu_seconds: CPU time used when last looked at.
        sampled: When that was.
        samples: What it used of late, oldest first.
        last_level: Its level when last decided on.
        streams: One event for each open stream, set when there is a new line.
        over: It has ended.
        container: What carries out its grants; None for processes of the host.
        astray: The container is not as it was told to be.
    """

    record: Record
    pidfd: int | None
    lessons: Lessons
    tree: list[int]
    expected_until: float = 0.0
    agents: dict[int, int] = field(default_factory=dict)
    actual: Cpuset = frozenset()
    published: float | None = None
    enforced: bool = False
    suspended: bool = False
    stopped: bool = False
    cancelled: bool = False
    kill_at: float | None = None
    reporter: int | None = None
    speed: Speedometer = field(default_factory=Speedometer)
    cpu_seconds: float | None = None
    sampled: float | None = None
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    last_level: int | None = None
    streams: set[asyncio.Event] = field(default_factory=set)
    over: bool = False
    container: Container | None = None
    astray: bool = False
    _idle: tuple[tuple[object, ...], Job] | None = None

    def expect(self, now: float) -> None:
        """Let it wait in the queue although it has not connected yet."""
        self.expected_until = now + _CONNECT_SECONDS

    def connect(self, pid: int) -> None:
        """Count on a process to acknowledge grants."""
        self.agents.setdefault(pid, _NEVER)

    def wake_streams(self) -> None:
        """Let every open stream look for a new line."""
        for news in self.streams:
            news.set()

    def is_held(self, now: float) -> bool:
        """Return whether it must have no cores, whatever a policy says."""
        return self.record.held or self.stopped or self.cancelled or self.is_absent(now)

    def is_absent(self, now: float) -> bool:
        """Return whether it waits for cores but nobody is there who would start it."""
        here = self.container is not None or bool(self.agents) or now < self.expected_until
        return self.record.state == "waiting" and not here

    def sample(self, cpu_seconds: float, runnable: int, now: float) -> None:
        """Take note of the CPU time used so far and the threads that want a CPU now."""
        if self.cpu_seconds is not None and self.sampled is not None and now > self.sampled:
            used = max(0.0, cpu_seconds - self.cpu_seconds) / (now - self.sampled)
            self.samples.append(Sample(used, max(used, float(runnable))))
        self.cpu_seconds, self.sampled = cpu_seconds, now

    def forget_samples(self) -> None:
        """Begin anew: it was paused, or is made of other processes now."""
        self.samples.clear()
        self.sampled = None

    @property
    def used_cpus(self) -> float | None:
        """CPUs kept busy of late; None while not known."""
        return self._mean(_USED)

    @property
    def wanted_cpus(self) -> float | None:
        """CPUs kept busy or waited for of late; None while not known."""
        return self._mean(_WANTED)

    def _mean(self, number: Callable[[Sample], float]) -> float | None:
        if self.record.state != "running" or not self.samples:
            return None
        return sum(map(number, self.samples)) / len(self.samples)

    @property
    def level(self) -> int | None:
        """CPUs wanted, in tenths: a change of it is worth a new decision.

        How busy a job is that uses all it has makes no difference.
        """
        wanted, cores = self.wanted_cpus, len(self.record.grant.cpus)
        if wanted is None:
            return None
        return int(10 * (wanted if wanted < cores - _BUSY else cores))

    @property
    def rates(self) -> tuple[Rate, ...]:
        """Speeds measured lately, and learned from earlier jobs."""
        return with_learned(self.speed.lately, self.lessons.rates)

    def as_job(self, now: float) -> Job:
        """Return what a policy may know of it."""
        if self.record.state == "running":
            return self._as_job(now)
        # Nothing of a job in a long queue changes from one decision to the next.
        sources = (self.record, self.speed, self.lessons)
        if self._idle is None or any(map(operator.is_not, self._idle[0], sources)):
            self._idle = (sources, self._as_job(now))
        return self._idle[1]

    def _as_job(self, now: float) -> Job:
        record = self.record
        return Job(
            id=record.id,
            shape=record.shape,
            submitted=record.submitted,
            priority=record.priority,
            weight=record.weight,
            state=record.state,
            since=record.entered,
            grant=record.grant,
            started=record.started,
            run_seconds=accounts.run_seconds(record, now),
            used_cpus=self.wanted_cpus,
            steps_done=self.speed.steps,
            steps_total=self.speed.total,
            rates=self.rates,
            expected_seconds=self.lessons.expected_seconds,
        )

    def line(self) -> GrantLine:
        """Return its grant as its agents get to see it."""
        grant = self.record.grant
        return GrantLine(
            self.record.serial,
            self.record.state,
            sorted(grant.cpus),
            sorted(grant.lent),
            confined=self.container is not None,
        )

    def status(self, now: float) -> JobStatus:
        """Return its state as users get to see it."""
        record = accounts.up_to(self.record, now)
        return JobStatus(
            id=record.id,
            name=record.name,
            command=list(record.command),
            user=user_name(record.uid),
            pid=None if record.process is None else record.process.pid,
            container=record.container,
            state=record.state,
            min=record.shape.min,
            preferred=record.shape.preferred,
            max=record.shape.max,
            priority=record.priority,
            weight=record.weight,
            desired=record.shape.preferred if record.by_hand is None else record.by_hand,
            granted=sorted(record.grant.cpus),
            lent=sorted(record.grant.lent),
            actual=sorted(self.actual),
            by_hand=record.by_hand,
            held=record.held,
            stopped=self.stopped,
            malleable=bool(self.agents) and record.state != "waiting",
            submitted=record.submitted,
            started=record.started,
            waiting_seconds=record.waiting_seconds,
            run_seconds=record.run_seconds,
            paused_seconds=record.paused_seconds,
            resizes=record.resizes,
            steps_done=self.speed.steps,
            steps_total=self.speed.total,
            steps_per_second=self.speed.recent if record.state == "running" else None,
            expected_seconds=self.lessons.expected_seconds,
            used_cpus=self.used_cpus,
            speeds=[Speed(rate.cores, rate.steps_per_second) for rate in self.rates],
        )


@lru_cache(maxsize=256)
def user_name(uid: int) -> str:
    """Return a user's name, or the number if there is no such user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
