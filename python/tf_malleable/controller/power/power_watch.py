# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Power watch: meters the host once a second and attributes the energy to jobs and areas."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from tf_malleable.api.schema.power import AreaPower, BudgetRequest, PowerStatus
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.controller.clock import until_next
from tf_malleable.controller.jobs.instruments import Instruments
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.ports import BudgetObserver, Power
from tf_malleable.controller.power.budgets import Budgets
from tf_malleable.controller.requests.callers import Caller
from tf_malleable.linux.host_cpu import HostCpu
from tf_malleable.model import Budget, Machine
from tf_malleable.model.power import EnergySource
from tf_malleable.scheduling.energy.energy_lines import Energy, EnergyLines, attribute, weaker

# Averages over less than this are not published (CVE-2020-8694).
_PUBLISH_SECONDS = 1.0
# Seconds by which a timer may fire early.
_EARLY = 0.05
# Age up to which a reading is recent enough for a decision.
_FRESH_SECONDS = 0.05

_UNMETERED = "this controller meters no power: start it with --area"

_log = logging.getLogger(__name__)


@dataclass
class _Drawn:
    """Energy drawn since the last publication."""

    seconds: float = 0.0
    joules: float = 0.0
    busy: float = 0.0
    gpus: dict[int, float] = field(default_factory=dict)
    source: EnergySource | None = None

    def add(self, energy: Energy, busy: float) -> None:
        self.seconds += energy.seconds
        self.joules += energy.joules
        self.busy += busy
        self.source = weaker(self.source, energy.source)
        for gpu, joules in energy.gpus.items():
            self.gpus[gpu] = self.gpus.get(gpu, 0.0) + joules


class _NoPower:
    """Stand-in for a power meter on a host that is not metered."""

    area, meter, curve, problem = "", None, None, _UNMETERED

    async def start(self, observer: BudgetObserver) -> None:
        """Do nothing."""

    def draw(self, busy_seconds: float) -> None:
        """Return None: nothing is metered."""

    async def close(self) -> None:
        """Do nothing."""


_NO_POWER = _NoPower()


class PowerWatch:
    """Power metering of the host. Not thread-safe: one asyncio loop.

    Attributes:
        budgets: Power budgets of the host and of areas.
    """

    def __init__(
        self,
        power: Power | None,
        jobs: Mapping[str, LiveJob],
        now: Callable[[], float],
        instruments: Instruments,
        *,
        shared: Callable[[], int],
        react: Callable[[], None],
        default: Budget | None = None,
    ) -> None:
        """Create a watch; it does nothing until start().

        Args:
            power: Power meter of the host; None if nothing is metered.
            jobs: Live jobs by id, as a live view.
            now: Returns Unix time on the clock of all records.
            instruments: Has the energy counters and power gauges.
            shared: Returns the number of CPUs that are currently shared out.
            react: Called when another decision is needed.
            default: Budget that applies while there is no other; None for no limit.
        """
        self._is_metered = power is not None
        self._power: Power = _NO_POWER if power is None else power
        self._area = self._power.area
        self._jobs, self._instruments = jobs, instruments
        self._cpu = HostCpu()
        self.budgets = Budgets(
            self._power, self._cpu.cpus, shared, self._granted, now, react, default
        )
        self._drawn = _Drawn()
        self._taken_at = -math.inf
        self._seconds_of: dict[str, float] = {}
        self._lines: EnergyLines | None = None
        self._seconds = _PUBLISH_SECONDS
        self._least = math.inf
        self._joules: dict[str, dict[EnergySource, float]] = {}
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start metering, and listening for budgets."""
        if not self._is_metered:
            return
        self._take()
        self._task = asyncio.create_task(self._meter_for_ever())
        await self._power.start(self)

    async def close(self) -> None:
        """Stop metering and listening."""
        if self._task is not None:
            self._task.cancel()
        await self._power.close()

    async def _meter_for_ever(self) -> None:
        while True:
            await asyncio.sleep(until_next(_PUBLISH_SECONDS))
            try:
                self.tick()
            except Exception:
                _log.exception("cannot meter this host")

    def tick(self, *, at_once: bool = False) -> None:
        """Read the meter, and attribute and publish the energy if a second has passed.

        Args:
            at_once: True to publish even if it has not.
        """
        self._take()
        if at_once or self._drawn.seconds >= _PUBLISH_SECONDS - _EARLY:
            self._publish()
        self.budgets.follow()

    def limited(self, machine: Machine) -> Machine:
        """Return a machine with the power limits that a decision must keep."""
        is_old = time.monotonic() - self._taken_at > _FRESH_SECONDS
        if is_old and self.budgets.needs_readings:
            self._take()
        limit, areas = self.budgets.limit(), self.budgets.areas.limits()
        return replace(machine, power=limit, areas=areas) if limit or areas else machine

    def _granted(self, area: str) -> int:
        """Return the number of CPUs that the jobs of an area currently have."""
        mine = (live.record for live in self._jobs.values() if live.record.area == area)
        return len({cpu for record in mine for cpu in record.grant.cpus})

    def _take(self) -> None:
        """Read the meter."""
        self._taken_at = time.monotonic()
        busy = self._cpu.busy_since()
        try:
            energy = self._power.draw(busy)
        except Exception:  # A decision waits for this, and must not fail.
            _log.exception("cannot meter this host")
            return
        if energy is not None and energy.seconds > 0:
            self._drawn.add(energy, busy)
            self.budgets.note_drawn(energy)

    def _publish(self) -> None:
        drawn, self._drawn = self._drawn, _Drawn()
        used, owners = self._used(), self._owners()
        energy = Energy(drawn.seconds, drawn.joules, drawn.source or "estimated", drawn.gpus)
        by_jobs = sum(used.values())
        used |= {job: 0.0 for job in owners.values() if job not in used}
        self._lines = attribute(energy, self._idle_watts(energy), drawn.busy, used, owners)
        self._seconds = drawn.seconds
        self.budgets.note_load(energy, drawn.busy, by_jobs)
        self._count(self._lines)

    def _used(self) -> dict[str, float]:
        """Return the CPU time of each job since the last call; 0 for a new job."""
        before, self._seconds_of = (
            self._seconds_of,
            {
                job: live.measured.usage.cpu_seconds
                for job, live in self._jobs.items()
                if live.measured.usage.cpu_seconds is not None
            },
        )
        return {
            job: max(0.0, seconds - before[job]) if job in before else 0.0
            for job, seconds in self._seconds_of.items()
        }

    def _owners(self) -> dict[int, str]:
        return {gpu: job for job, live in self._jobs.items() for gpu in live.record.gpus or ()}

    def _idle_watts(self, energy: Energy) -> float:
        """Return the host's power draw without load: from its curve, or the lowest ever seen."""
        if self._power.curve is not None:
            return self._power.curve.idle
        without_gpus = energy.joules - sum(energy.gpus.values())
        self._least = min(self._least, max(0.0, without_gpus) / energy.seconds)
        return self._least

    def _count(self, lines: EnergyLines) -> None:
        for job, joules in lines.jobs.items():
            live = self._jobs[job]
            before, source = live.record.energy_joules or 0.0, live.record.energy_source
            live.amend(
                replace(
                    live.record,
                    energy_joules=before + joules,
                    energy_source=weaker(source, lines.source),
                )
            )
            live.measured.usage.note_watts(joules / self._seconds)
        shares = self._shares(lines)
        self.budgets.areas.note_drawn(self._seconds, shares)
        for area, joules in shares.items():
            of_area = self._joules.setdefault(area, {})
            of_area[lines.source] = of_area.get(lines.source, 0.0) + joules
            self._instruments.energy.labels(area, lines.source).inc(joules)
            self._instruments.watts.labels(area).set(round(joules / self._seconds, 1))

    def _shares(self, lines: EnergyLines) -> dict[str, float]:
        """Return the joules of each area."""
        shares = dict.fromkeys([*self._joules, self._area], 0.0)
        shares[self._area] += lines.idle + lines.other
        for job, joules in lines.jobs.items():
            live = self._jobs.get(job)
            area = self._area if live is None else live.record.area or self._area
            shares[area] = shares.get(area, 0.0) + joules
        return shares

    def change(self, caller: Caller, request: BudgetRequest) -> PowerStatus:
        """Set or withdraw a power budget.

        Raises:
            Refusal: The caller has no permission, or the budget cannot be kept.
        """
        caller.check_unconfined()
        if not caller.is_administrator:
            raise Refusal(403, "only root or the controller's user may change the power budget")
        if not self._is_metered:
            raise Refusal(409, _UNMETERED)
        areas = {live.record.area or self._area for live in self._jobs.values()}
        self.budgets.change(request, {*areas, *self._joules})
        return self.profile()

    def given(self, author: str, budget: Budget) -> None:
        """Accept a budget; see BudgetObserver."""
        self.budgets.given(author, budget)

    def withdrawn(self, author: str) -> None:
        """Handle that an author's budget is void; see BudgetObserver."""
        self.budgets.withdrawn(author)

    def profile(self) -> PowerStatus:
        """Return the power status of the host, as users see it."""
        power, lines, budgets = self._power, self._lines, self.budgets.areas.in_force()
        granted = {cpu for live in self._jobs.values() for cpu in live.record.grant.cpus}
        status = PowerStatus(
            area=power.area,
            meter=power.meter,
            curve=[] if power.curve is None else list(power.curve.points),
            budget=self.budgets.in_force(granted),
            default=self.budgets.default,
            problem=power.problem,
        )
        if lines is None:
            return status
        shares = dict.fromkeys(budgets, 0.0) | self._shares(lines)
        areas = [
            AreaPower(area, self._watts(joules), self._rounded(area), budgets.get(area))
            for area, joules in sorted(shares.items())
        ]
        return msgspec.structs.replace(
            status,
            source=lines.source,
            watts=self._watts(lines.total),
            idle_watts=self._watts(lines.idle),
            other_watts=self._watts(lines.other),
            areas=areas,
        )

    def _watts(self, joules: float) -> float:
        return round(joules / self._seconds, 1)

    def _rounded(self, area: str) -> dict[EnergySource, float]:
        return {source: round(sum_, 1) for source, sum_ in self._joules.get(area, {}).items()}
