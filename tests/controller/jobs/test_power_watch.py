# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Energy of jobs and areas, and budgets, in a service with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.service import BUSY, ME, host, refused
from tf_malleable.api.schema.power import BudgetRequest
from tf_malleable.controller.ports import BudgetObserver
from tf_malleable.controller.power import power_watch
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.model import Budget, PowerCurve
from tf_malleable.scheduling.energy.energy_lines import Energy

CURVE = PowerCurve(((0.0, 50.0), (1.0, 150.0)))
CPUS = 4
BIG = PowerCurve(((0.0, 50.0), (1.0, 50.0 + 100.0 * CPUS)))
"""One core more draws 100 W."""


class FakeCpu:
    """A host of which nothing but its jobs keeps CPUs busy."""

    cpus = CPUS

    def busy_since(self) -> float:
        return 0.0


@pytest.fixture(autouse=True)
def _host(monkeypatch):
    monkeypatch.setattr(power_watch, "HostCpu", FakeCpu)


def in_loop(test: Callable[..., Any]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*arguments, **named):
        asyncio.run(test(*arguments, **named))

    return run


class FakePower:
    """Draws as much as the curve says, at whatever time."""

    def __init__(self, curve: PowerCurve | None = CURVE) -> None:
        self.area, self.meter, self.curve, self.problem = "lab", "fake", curve, None
        self.observer: BudgetObserver | None = None
        self.drawn = 0.0
        self.at: float | None = None
        self.source = "replayed"
        self.is_broken = False

    async def start(self, observer: BudgetObserver) -> None:
        self.observer = observer

    def draw(self, busy_seconds: float) -> Energy | None:
        if self.is_broken:
            raise RuntimeError("out of order")
        now = time.monotonic()
        at, self.at = self.at, now
        if at is None:
            return None
        joules = 120.0 * (now - at)
        self.drawn += joules
        return Energy(now - at, joules, self.source)  # type: ignore[arg-type]

    async def close(self) -> None:
        self.observer = None


@contextlib.asynccontextmanager
async def metered(tmp_path, power: FakePower | None = None, **more):
    power = power or FakePower()
    async with host(tmp_path / "db", cpus=CPUS, power=power, **more) as here:  # type: ignore[arg-type]
        yield here, power


@pytest.mark.slow
@in_loop
async def test_the_lines_add_up_to_the_host_and_outlive_the_controller(tmp_path):
    async with metered(tmp_path) as (here, power):
        program = here.program(BUSY)
        mine = here.submit(program, "mine", area="room-12")
        other = here.submit(here.program(BUSY), "other")
        await here.until(lambda: (here.status(mine).energy_joules or 0) > 20, 30.0)
        await here.until(lambda: (here.status(other).energy_joules or 0) > 20, 30.0)
        profile = here.service.power.profile()
        assert profile.watts == pytest.approx(120, rel=0.001)
        assert profile.idle_watts == pytest.approx(50, rel=0.001)
        assert profile.source == "replayed"
        assert {area.area for area in profile.areas} == {"lab", "room-12"}
        total = sum(sum(area.joules.values()) for area in profile.areas)
        # What was drawn since the last second is not published.
        assert -0.2 <= power.drawn - total <= 120 * 1.5
        status = here.status(mine)
        assert (status.area, status.energy_source) == ("room-12", "replayed")
        assert status.watts is not None
        assert b'tfm_energy_joules_total{area="room-12",source="replayed"}' in (
            here.service.metrics()
        )
        program.end()
        await here.until(lambda: len(here.service.jobs()) == 1)
        (ended,) = here.service.history(9, spans=False).jobs
        assert (ended.area, ended.energy_source) == ("room-12", "replayed")
        assert (ended.energy_joules or 0) >= (status.energy_joules or 0)
        kept = here.status(other).energy_joules or 0
        power.source = "estimated"
        await here.until(lambda: here.status(other).energy_source == "estimated")
    async with metered(tmp_path) as (here, _):
        # The program was ended with the first controller.
        (_, ended) = here.service.history(9, spans=False).jobs
        assert (ended.energy_joules or 0) >= kept
        assert ended.energy_source == "estimated"


@in_loop
async def test_without_meters_there_is_nothing(tmp_path):
    async with host(tmp_path / "db") as here:
        profile = here.service.power.profile()
        assert (profile.watts, profile.areas) == (None, [])
        assert profile.problem == "this controller meters no power: start it with --area"
        with refused(409, "start it with --area"):
            here.service.set_budget(ME, BudgetRequest("lab", 100.0))
        assert b"tfm_energy_joules_total{" not in here.service.metrics()


@in_loop
async def test_a_peak_takes_cores_away_and_its_end_gives_them_back(tmp_path):
    async with metered(tmp_path, FakePower(BIG)) as (here, _):
        await here.job(max=CPUS)
        assert here.granted() == [CPUS]
        found = here.service.set_budget(ME, BudgetRequest("lab", 50.0 + 100.0 * CPUS))
        assert found.budget is not None
        assert (found.budget.watts, found.budget.author) == (50.0 + 100 * CPUS, "this host")
        here.service.set_budget(ME, BudgetRequest("lab", 265.0))
        await here.until(lambda: here.granted()[0] <= 2)
        here.service.set_budget(ME, BudgetRequest("lab", None))
        await here.until(lambda: here.granted() == [CPUS])


@in_loop
async def test_a_mean_pauses_all_together_and_resumes_them(tmp_path):
    async with metered(tmp_path, FakePower(BIG)) as (here, _):
        await here.job(max=2)
        await here.job(max=2)
        # The host draws 120 W whatever is done, so there is credit only below the budget.
        here.service.set_budget(ME, BudgetRequest("lab", 110.0, window=10.0))
        await here.until(lambda: here.states() == ["paused", "paused"])
        here.service.set_budget(ME, BudgetRequest("lab", 140.0, window=10.0))
        await here.until(lambda: here.states() == ["running", "running"], 30.0)


@in_loop
async def test_jobs_do_not_notice_a_meter_that_is_out_of_order(tmp_path, caplog):
    async with metered(tmp_path, FakePower(BIG)) as (here, power):
        await here.job(max=2)
        here.service.set_budget(ME, BudgetRequest("lab", 440.0, window=10.0))
        await here.until(lambda: here.granted() == [2])
        power.is_broken = True
        await asyncio.sleep(0.1)  # Until what was read is too old to decide on.
        await here.job(max=2)
        await here.until(lambda: here.granted() == [2, 2])
        assert here.service.info().problem is None
        assert "cannot meter this host" in caplog.text


@pytest.mark.slow
@in_loop
async def test_an_expired_budget_falls_to_the_default(tmp_path):
    async with metered(tmp_path, FakePower(BIG), safe=Budget(70.0)) as (here, _):
        await here.job(max=CPUS)
        # No core runs at 70 W.
        await here.until(lambda: here.granted() == [0])
        profile = here.service.power.profile()
        assert profile.default == 70
        assert profile.budget is not None
        assert profile.budget.author == "default"
        until = time.time() + 1.5
        here.service.set_budget(ME, BudgetRequest("lab", 5000.0, until=until))
        await here.until(lambda: here.granted() == [CPUS])
        await here.until(lambda: here.granted() == [0])


@pytest.mark.parametrize(
    ("request_", "status", "sentence"),
    [
        (BudgetRequest("lab", 40.0), 409, "draws 50 W when it is idle"),
        (BudgetRequest("lab", 120.0), 409, "with one core busy"),
        (BudgetRequest("lab", 500.0, until=1.0), 409, "already expired"),
        (BudgetRequest("office", 500.0), 404, "no job here is in area office: budgets can be"),
        (BudgetRequest("office", None), 404, "can be given to lab"),
    ],
)
@in_loop
async def test_what_is_refused(tmp_path, request_, status, sentence):
    async with metered(tmp_path, FakePower(BIG)) as (here, _):
        with refused(status, sentence):
            here.service.set_budget(ME, request_)
        assert here.service.power.profile().budget is None


@in_loop
async def test_who_may_not(tmp_path):
    async with metered(tmp_path) as (here, _):
        stranger = here.program()
        peer = Peer(stranger.pid, 12345, 12345)
        with refused(403, "only root or the controller's user may change the power budget"):
            here.service.set_budget(peer, BudgetRequest("lab", 140.0))


@in_loop
async def test_a_host_that_was_never_calibrated_keeps_no_budget(tmp_path):
    async with metered(tmp_path, FakePower(None)) as (here, _):
        with refused(409, "run tfm power calibrate"):
            here.service.set_budget(ME, BudgetRequest("lab", 140.0))


@in_loop
async def test_budgets_from_elsewhere(tmp_path):
    async with metered(tmp_path, FakePower(BIG)) as (here, power):
        assert power.observer is not None
        power.observer.given("organisation", Budget(300.0, serial=5))
        with pytest.raises(ValueError, match="out of order"):
            power.observer.given("organisation", Budget(400.0, serial=4))
        here.service.set_budget(ME, BudgetRequest("lab", 900.0))
        budget = power.observer.profile().budget
        assert budget is not None
        # Both bind, so the smaller one does.
        assert (budget.watts, budget.author) == (300.0, "organisation")
        power.observer.withdrawn("organisation")
        budget = power.observer.profile().budget
        assert budget is not None
        assert budget.author == "this host"
        await asyncio.sleep(0)


@pytest.mark.slow
@in_loop
async def test_a_peak_of_an_area_binds_its_jobs_alone(tmp_path):
    power = FakePower(BIG)
    power.source = "estimated"  # What it draws does not correct the curve.
    async with metered(tmp_path, power) as (here, _):
        await here.job(max=2, area="room-12")
        await here.job(max=2)
        # A core counts as 100 W, whatever the others do.
        found = here.service.set_budget(ME, BudgetRequest("room-12", 120.0))
        assert found.budget is None
        await here.until(lambda: here.granted() == [1, 2])
        await here.until(lambda: "room-12" in budgets_of(here))
        kept = budgets_of(here)["room-12"]
        assert (kept.watts, kept.kind, kept.author, kept.cores) == (120.0, "peak", "this host", 1)
        here.service.set_budget(ME, BudgetRequest("room-12", None))
        await here.until(lambda: here.granted() == [2, 2])
        assert budgets_of(here) == {}


def budgets_of(here):
    areas = here.service.power.profile().areas
    return {area.area: area.budget for area in areas if area.budget is not None}


@in_loop
async def test_a_mean_of_an_area_pauses_its_jobs_and_resumes_them(tmp_path):
    async with metered(tmp_path, FakePower(BIG)) as (here, _):
        here.submit(here.program(BUSY), "mine", area="room-12", max=2)
        here.submit(here.program(BUSY), "other", max=2)
        await here.until(lambda: here.states() == ["running", "running"])
        # Two cores count as up to 200 W.
        here.service.set_budget(ME, BudgetRequest("room-12", 20.0, window=10.0))
        await here.until(lambda: here.states() == ["paused", "running"])
        # It is credited while it is paused.
        await here.until(lambda: here.states() == ["running", "running"], 30.0)
        await here.until(lambda: here.states() == ["paused", "running"], 30.0)


@pytest.mark.slow
@in_loop
async def test_an_area_s_budget_expires(tmp_path):
    async with metered(tmp_path, FakePower(BIG)) as (here, _):
        await here.job(max=2, area="room-12")
        until = time.time() + 1.5
        here.service.set_budget(ME, BudgetRequest("room-12", 110.0, until=until))
        await here.until(lambda: here.granted() == [1])
        await here.until(lambda: here.granted() == [2])


@pytest.mark.parametrize(
    ("request_", "status", "sentence"),
    [
        (BudgetRequest("office", 500.0), 404, "budgets can be given to lab, room-12"),
        (BudgetRequest("room-12", 90.0), 409, "one core can draw 100 W here"),
        (BudgetRequest("room-12", 500.0, until=1.0), 409, "already expired"),
    ],
)
@in_loop
async def test_what_is_refused_for_an_area(tmp_path, request_, status, sentence):
    async with metered(tmp_path, FakePower(BIG)) as (here, _):
        await here.job(max=2, area="room-12")
        with refused(status, sentence):
            here.service.set_budget(ME, request_)
        assert here.granted() == [2]


@in_loop
async def test_a_host_that_was_never_calibrated_keeps_no_budget_of_an_area(tmp_path):
    async with metered(tmp_path, FakePower(None)) as (here, _):
        await here.job(area="room-12")
        with refused(409, "run tfm power calibrate"):
            here.service.set_budget(ME, BudgetRequest("room-12", 140.0))
