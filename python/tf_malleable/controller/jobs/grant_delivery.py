# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Delivery of a job's grants: open streams, acknowledgements, and CPUs in force."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from tf_malleable.model import Cpuset, Grant

_NEVER = -1


class Streams:
    """One event per open stream, set when there is a new line."""

    def __init__(self) -> None:
        self._events: set[asyncio.Event] = set()

    def open(self) -> asyncio.Event:
        """Add a stream; return an event that is set when there is a new line, for close()."""
        news = asyncio.Event()
        self._events.add(news)
        return news

    def close(self, news: asyncio.Event) -> None:
        """Stop waking a stream."""
        self._events.discard(news)

    def wake(self) -> None:
        """Make every open stream check for a new line."""
        for news in self._events:
            news.set()


@dataclass
class GrantDelivery:
    """State of a job's current grant, from its publication to the acknowledgements.

    Attributes:
        agents: Serial number last acknowledged, by pid of each connected process.
        splitters: Pids of the agents that split each grant among the other processes.
        actual: CPUs that the job has acknowledged.
        narrowed: CPUs that the job can use, where others than the controller keep it from using
            all granted ones; None where they do not, as far as known.
        published: Time at which the current grant was published, on the monotonic clock; None
            once it is acknowledged.
        enforced: True if the current grant was enforced from outside.
        streams: Open streams of the job's grants.
    """

    agents: dict[int, int] = field(default_factory=dict)
    splitters: set[int] = field(default_factory=set)
    actual: Cpuset = frozenset()
    narrowed: Cpuset | None = None
    published: float | None = None
    enforced: bool = False
    streams: Streams = field(default_factory=Streams)

    def connect(self, pid: int, *, splits: bool = False) -> None:
        """Expect a process to acknowledge grants; with `splits`, also to split them."""
        self.agents.setdefault(pid, _NEVER)
        if splits:
            self.splitters.add(pid)

    def disconnect(self, pid: int, serial: int) -> bool:
        """Stop expecting a process; return whether no agent is left to apply the grant.

        Args:
            pid: Pid of the process.
            serial: Serial number of the current grant.
        """
        acknowledged = self.agents.pop(pid, None) == serial
        self.splitters.discard(pid)
        return not self.agents and not acknowledged

    def acknowledge(self, pid: int, serial: int) -> None:
        """Record that a connected process has carried out a grant."""
        if pid in self.agents:
            self.agents[pid] = serial

    def publish(self, grant: Grant) -> None:
        """Send a new grant to the open streams."""
        self.enforced = False
        self.narrowed = None  # The job's threads will have another affinity.
        self.published = time.monotonic() if grant else None
        if not grant:
            self.actual = frozenset()
        self.streams.wake()

    def note_enforced(self) -> None:
        """Record that the current grant was enforced from outside."""
        self.enforced = True

    def note_stopped(self) -> None:
        """Record that the job uses no CPUs, as its processes were stopped from elsewhere."""
        self.actual = frozenset()
        self.narrowed = None

    def note_allowed(self, granted: Cpuset, allowed: Cpuset) -> bool:
        """Record the CPUs that the job's processes may use; return whether `in_use` has changed.

        Before a grant is actual, only CPUs that are all others than the granted ones count.
        """
        before = self.in_use
        usable = granted & allowed
        if usable == granted or not allowed or (usable and self.published is not None):
            self.narrowed = None
        else:
            self.narrowed = usable or allowed
        return self.in_use != before

    @property
    def in_use(self) -> Cpuset:
        """CPUs that the job has acknowledged and can use."""
        return self.actual if self.narrowed is None else self.narrowed

    def settle(self, grant: Grant, serial: int, *, by_kernel: bool) -> tuple[bool, float | None]:
        """Mark a grant as actual if every agent has acknowledged it.

        Args:
            grant: The current grant.
            serial: Its serial number.
            by_kernel: True if the grant must be enforced from outside in any case; without
                agents it must.

        Returns:
            Whether the grant is actual; and the seconds since it was published, the first time,
            otherwise None.
        """
        if any(acknowledged != serial for acknowledged in self.agents.values()):
            return False, None
        if not self.enforced and (not self.agents or by_kernel):
            return False, None
        seconds = None if self.published is None else time.monotonic() - self.published
        self.published = None
        self.actual = grant.cpus
        return True, seconds
