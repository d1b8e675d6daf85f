# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A live job while the controller runs: its record, and what is not worth keeping."""

from __future__ import annotations

import asyncio
import operator
import time
from dataclasses import dataclass, field, replace

from tf_malleable.controller.ports import Container
from tf_malleable.model import Cpuset, Grant, Job, ProcessId, Rate
from tf_malleable.scheduling import accounting
from tf_malleable.scheduling.learning import Lessons
from tf_malleable.scheduling.record import Record
from tf_malleable.scheduling.speeds import Speedometer, with_learned
from tf_malleable.scheduling.usage import Usage

# A program that was submitted opens its stream of grants within this time.
_CONNECT_SECONDS = 5.0
_NEVER = -1


@dataclass
class Live:
    """Mutable, by its own methods only. Times are Unix times in seconds.

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
        usage: CPUs it keeps busy.
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
    usage: Usage = field(default_factory=Usage)
    last_level: int | None = None
    streams: set[asyncio.Event] = field(default_factory=set)
    over: bool = False
    container: Container | None = None
    astray: bool = False
    _idle: tuple[tuple[object, ...], Job] | None = None

    # What happens to it. Nobody else assigns to its attributes.

    def expect(self, now: float) -> None:
        """Let it wait in the queue although it has not connected yet."""
        self.expected_until = now + _CONNECT_SECONDS

    def connect(self, pid: int) -> None:
        """Count on a process to acknowledge grants."""
        self.agents.setdefault(pid, _NEVER)

    def disconnect(self, pid: int) -> bool:
        """Count on a process no more; return whether the present grant lacks an agent."""
        acknowledged = self.agents.pop(pid, None) == self.record.serial
        return not self.agents and not acknowledged

    def acknowledge(self, pid: int, serial: int) -> None:
        """Note that a process that is counted on has carried out a grant."""
        if pid in self.agents:
            self.agents[pid] = serial

    def attach_process(self, process: ProcessId, pidfd: int) -> None:
        """Give it its main process; the pidfd is its own from now on."""
        self.record = replace(self.record, process=process)
        self.pidfd, self.tree = pidfd, [process.pid]

    def attach_container(self, container: Container) -> None:
        """Give it what carries out its grants."""
        self.container = container

    def amend(self, record: Record) -> None:
        """Change what is kept of it."""
        self.record = record

    def learn(self, lessons: Lessons) -> None:
        """Know what earlier jobs like it have taught."""
        self.lessons = lessons

    def take(self, grant: Grant, now: float) -> Record:
        """Have another grant, not carried out yet; return the record before it."""
        before = self.record
        self.record = accounting.granted(before, grant, now)
        self.enforced = False
        if not grant.cpus <= before.grant.cpus:
            # What it did not use before says nothing of what it has only now.
            self.usage.forget()
        if grant:
            self.published = time.monotonic()
        else:
            self.published = None
            self.actual = frozenset()
            self.speed = self.speed.change(0, now)
        self.wake_streams()
        return before

    def settle(self, now: float) -> float | None:
        """Count the grant as actual if every agent has acknowledged it.

        And, of a container, if the kernel says so too. Without agents it must have been
        carried out from outside.

        Returns:
            Seconds since it was published, the first time; otherwise None.
        """
        if self.record.state != "running" or self.stopped:
            return None
        if any(serial != self.record.serial for serial in self.agents.values()):
            return None
        if not self.enforced and (not self.agents or self.container is not None):
            return None
        seconds = None if self.published is None else time.monotonic() - self.published
        self.published = None
        self.actual = self.record.grant.cpus
        self.speed = self.speed.change(len(self.actual), now)
        return seconds

    def note_enforced(self) -> None:
        """The present grant was carried out from outside."""
        self.enforced = True

    def note_suspended(self, suspended: bool) -> None:
        """We have stopped its processes, or let them go on."""
        self.suspended = suspended

    def note_tree(self, tree: list[int]) -> bool:
        """Its processes are these; return whether they are others than before."""
        changed = tree != self.tree
        self.tree = tree
        return changed

    def note_stopped(self, stopped: bool) -> bool:
        """Somebody else has stopped it, or not; return whether that is new."""
        before, self.stopped = self.stopped, stopped
        if stopped:
            self.actual = frozenset()
        return stopped != before

    def note_astray(self, astray: bool) -> None:
        """Its container is not as it was told to be, or is."""
        self.astray = astray

    def note_decision(self) -> None:
        """It was decided on, at its present level."""
        if self.record.state == "running":
            self.last_level = self.level

    def report(self, pid: int, steps_done: float, steps_total: float | None, now: float) -> None:
        """Note its progress, unless another of its processes reports already."""
        if self.reporter not in self.agents:
            self.reporter = pid
        if self.reporter == pid:
            self.speed = self.speed.report(steps_done, steps_total, now)

    def cancel(self, kill_at: float) -> None:
        """It is to end, by force at a time."""
        self.cancelled = True
        self.kill_at = kill_at

    def end(self) -> None:
        """It is over: its streams end."""
        self.over = True
        self.wake_streams()

    def open_stream(self) -> asyncio.Event:
        """Return an event that is set when there is a new line; see close_stream()."""
        news = asyncio.Event()
        self.streams.add(news)
        return news

    def close_stream(self, news: asyncio.Event) -> None:
        """Wake a stream no more."""
        self.streams.discard(news)

    def wake_streams(self) -> None:
        """Let every open stream look for a new line."""
        for news in self.streams:
            news.set()

    # What it is.

    @property
    def is_silent(self) -> bool:
        """Whether its processes are not running, or were told to end."""
        return self.suspended or self.stopped or self.cancelled

    def is_held(self, now: float) -> bool:
        """Return whether it must have no cores, whatever a policy says."""
        return self.record.held or self.stopped or self.cancelled or self.is_absent(now)

    def is_absent(self, now: float) -> bool:
        """Return whether it waits for cores but nobody is there who would start it."""
        here = self.container is not None or bool(self.agents) or now < self.expected_until
        return self.record.state == "waiting" and not here

    @property
    def used_cpus(self) -> float | None:
        """CPUs kept busy lately; None while not known or not running."""
        return self.usage.used if self.record.state == "running" else None

    @property
    def level(self) -> int | None:
        """CPUs wanted, in tenths; None while not known or not running."""
        running = self.record.state == "running"
        return self.usage.level(len(self.record.grant.cpus)) if running else None

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
        # One that joined while it ran has had cores, and is granted none yet.
        ungranted = record.state == "running" and not record.grant
        return Job(
            id=record.id,
            shape=record.shape,
            submitted=record.submitted,
            priority=record.priority,
            weight=record.weight,
            state="paused" if ungranted else record.state,
            since=record.entered,
            grant=record.grant,
            started=record.started,
            run_seconds=accounting.run_seconds(record, now),
            used_cpus=self.usage.wanted if record.state == "running" else None,
            steps_done=self.speed.steps,
            steps_total=self.speed.total,
            rates=self.rates,
            expected_seconds=self.lessons.expected_seconds,
        )
