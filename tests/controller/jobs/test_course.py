# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a job did with its cores is in the history, unless a restart has lost it."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.support.service import BUSY, Host, host
from tf_malleable.api.schema.history import JobRecord
from tf_malleable.api.schema.requests import Progress


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state" / "controller.db"


def report(here: Host, job: str, steps: float) -> None:
    here.service.progress(here.programs[-1].peer, job, Progress(steps_done=steps, steps_total=9.0))


async def killed(here: Host) -> JobRecord:
    here.programs[-1].send(signal.SIGKILL)
    await here.until(lambda: not here.service.jobs())
    return here.service.history(1, False).jobs[0]


def test_what_it_asked_for_and_did_is_kept(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job(min=1, preferred=2, max=3, priority=4, weight=1.5, expected=60.0)
            report(here, job, 0)
            report(here, job, 5)
            # A sample of the time between the two reports, in which the program is idle.
            phases = here.service._reactor.roster.live[job].measured.phases
            await here.until(lambda: phases._idle[1])
            report(here, job, 7)
            record = await killed(here)
            assert (record.min, record.preferred, record.max) == (1, 2, 3)
            assert (record.priority, record.weight, record.expected) == (4, 1.5, 60.0)
            assert (record.steps, record.steps_total, record.speeds) == (7.0, 9.0, [])
            assert record.first_step_seconds is not None
            assert record.last_step_seconds is not None
            first, last = record.first_step_seconds, record.last_step_seconds
            assert 0 < first < first + last < record.service_seconds
            assert record.idle_phases == 1
            assert 0 < record.idle_seconds < record.service_seconds - first - last + 0.3
            # The next run of the program is expected to take as long.
            again = await here.job()
            seen = here.service._reactor.roster.live[again].as_job(0.0)
            assert seen.startup_seconds == here.status(again).startup_seconds == first

    asyncio.run(scenario())


def test_a_program_that_computes_is_not_idle_and_reports_nothing(state):
    async def scenario():
        async with host(state) as here:
            job = here.submit(here.program(BUSY))
            live = here.service._reactor.roster.live[job]
            await here.until(lambda: (live.measured.usage.cpu_seconds or 0.0) > 0.5)
            record = await killed(here)
            assert (record.steps, record.first_step_seconds) == (None, None)
            # Beside other programs it may have had less than 0.2 CPUs for a while, which counts as
            # idle; but no more than a CPU in the rest of the time.
            busy = record.service_seconds - record.idle_seconds
            assert busy + 0.2 * record.idle_seconds > 0.45

    asyncio.run(scenario())


def test_a_restart_loses_it(state):
    async def scenario():
        async with host(state, close=False) as here:
            job = await here.job(max=3)
            report(here, job, 5)
            await here.service.saved()
            await here.service.close()
            here.service._store.close()
            async with host(state) as after:
                assert [each.id for each in after.service.jobs()] == [job]
                live = after.service._reactor.roster.live[job]
                await after.until(lambda: live.measured.usage.used is not None)
                after.programs.append(here.programs[-1])
                report(after, job, 5)
                record = await killed(after)
                assert (record.max, record.steps_total) == (3, 9.0)
                assert (record.first_step_seconds, record.last_step_seconds) == (None, None)
                assert (record.idle_seconds, record.idle_phases) == (None, None)

    asyncio.run(scenario())
