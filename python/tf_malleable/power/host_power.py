# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Power of this host: from the best meter that works, or else from its power curve.

A meter that fails is tried again later; meanwhile values are estimated, and marked as such. The
time of a suspend is not counted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tf_malleable.controller.ports import BudgetObserver
from tf_malleable.linux.host_cpu import HostCpu
from tf_malleable.model.power import EnergySource, PowerCurve
from tf_malleable.power.meter import Counted, EnergyMeter, MeterError
from tf_malleable.power.remote import NO_REMOTE, Remote
from tf_malleable.scheduling.energy.energy_lines import Energy

_RETRY_SECONDS = 30.0
# If more than this passed on only one of the two clocks, the host was suspended.
_SUSPENDED_SECONDS = 0.5
# Packages are a part of the host. If they exceed this multiple of the whole host's power, and
# for this many seconds, one of the two meters is wrong.
_DISAGREE = 1.1
_DISAGREE_SECONDS = 10.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Meters:
    """Meters of a host.

    Attributes:
        ordered: Meters, best first.
        gpus: Meter of the GPUs, which are added to a meter that does not count the whole host;
            None without GPUs.
        source: Origin of the meters' values.
        problem: Why there is no better meter; None if there is nothing to report.
    """

    ordered: Sequence[EnergyMeter] = ()
    gpus: EnergyMeter | None = None
    source: EnergySource = "measured"
    problem: str | None = None


@dataclass(frozen=True)
class PowerClocks:
    """Clocks, in seconds.

    Attributes:
        running: Clock that stops during a suspend.
        wall: Clock that continues during a suspend.
    """

    running: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)


_CLOCKS = PowerClocks()


class HostPower:
    """The controller's port to meters; see controller.ports.Power. Not thread-safe.

    Args:
        area: Area that the host belongs to.
        meters: Meters of the host.
        curve: Power of the host by load; None if unknown.
        remote: Remote source of budgets.
        clocks: Clocks of the measurements.
        cpus: Number of CPUs of the host.
    """

    def __init__(
        self,
        area: str,
        meters: Meters,
        curve: PowerCurve | None = None,
        *,
        remote: Remote = NO_REMOTE,
        clocks: PowerClocks = _CLOCKS,
        cpus: int | None = None,
    ) -> None:
        self.area = area
        self.curve = curve
        self._meters, self._gpus, self._source = list(meters.ordered), meters.gpus, meters.source
        self._remote = remote
        self._lasting = meters.problem
        self._failure: str | None = None
        self._quarrel: str | None = None
        self._clock, self._wall = clocks.running, clocks.wall
        self._cpus = cpus or HostCpu().cpus
        self._at: float | None = None
        self._slept = 0.0
        self._retry_at = 0.0
        self._quarrel_since: float | None = None

    @property
    def meter(self) -> str | None:
        """Name of the meter in use, for people; None without one."""
        names = [each.name for each in (*self._meters[:1], self._gpus) if each is not None]
        return " and ".join(names) or None

    @property
    def problem(self) -> str | None:
        """Why there is no better value; None if nothing is wrong."""
        return self._failure or self._quarrel or self._remote.problem or self._lasting

    async def start(self, observer: BudgetObserver) -> None:
        """Start listening for budgets."""
        await self._remote.start(observer, self.curve)

    async def close(self) -> None:
        """Stop listening."""
        await self._remote.close()

    def draw(self, busy_seconds: float) -> Energy | None:
        """Return the energy drawn since the last call; see Power."""
        at, slept = self._clock(), self._wall() - self._clock()
        last, self._at = self._at, at
        if last is None or abs(slept - self._slept) > _SUSPENDED_SECONDS:
            self._slept = slept
            self._forget()
            self._read_all(at)
            self._of_gpus(at)
            return None
        seconds = at - last
        counted = self._read_all(at)
        if counted is not None and counted.joules is not None:
            gpus = self._of_gpus(at)
            whole = bool(self._meters) and self._meters[0].is_whole
            joules = counted.joules + (0.0 if whole else sum(gpus.values()))
            return Energy(seconds, joules, self._source, gpus)
        if self.curve is None or seconds <= 0:
            return None
        watts = self.curve.watts(busy_seconds / seconds / self._cpus)
        gpus = self._of_gpus(at)
        return Energy(seconds, watts * seconds + sum(gpus.values()), "estimated", gpus)

    def _read_all(self, at: float) -> Counted | None:
        """Return the value of the best meter; None if no meter has one."""
        if not self._meters or at < self._retry_at:
            return None
        try:
            counted = self._meters[0].read(at)
        except MeterError as error:
            if self._failure != str(error):
                _log.warning("%s; values are estimated, if there is a curve", error)
            self._failure, self._retry_at = str(error), at + _RETRY_SECONDS
            return None
        self._failure = None
        self._compare(counted, at)
        return counted

    def _compare(self, counted: Counted, at: float) -> None:
        """Note whether another meter contradicts the best one."""
        first = self._meters[0]
        for other in self._meters[1:]:
            try:
                others = other.read(at).joules
            except MeterError:
                continue
            if counted.joules is None or others is None or first.is_whole == other.is_whole:
                continue
            part, whole = (others, counted.joules) if first.is_whole else (counted.joules, others)
            if part <= whole * _DISAGREE:
                self._quarrel_since, self._quarrel = None, None
                continue
            self._quarrel_since = at if self._quarrel_since is None else self._quarrel_since
            if at - self._quarrel_since >= _DISAGREE_SECONDS:
                small, large = (first, other) if first.is_whole else (other, first)
                self._quarrel = (
                    f"{large.name} counts more for the processors than {small.name} for the whole"
                    f" host: {first.name} is used, and one of them is wrong"
                )

    def _of_gpus(self, at: float) -> dict[int, float]:
        if self._gpus is None:
            return {}
        try:
            return dict(self._gpus.read(at).gpus)
        except MeterError as error:
            self._quarrel = str(error)
            return {}

    def _forget(self) -> None:
        for meter in (*self._meters, self._gpus):
            if meter is not None:
                meter.forget()
