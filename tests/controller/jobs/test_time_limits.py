# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How long a job may and will run, as its user says."""

from __future__ import annotations

import asyncio
import signal

import pytest

from tests.support.service import ME, host
from tf_malleable.api.schema.job_request import JobRequest


def test_a_job_is_ended_at_its_time_limit(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job(time_limit=0.5)
            assert here.status(job).time_limit == 0.5
            await here.until(lambda: not here.service.jobs())
            assert here.programs[0].wait() == -signal.SIGTERM
            (record,) = here.service.history(1, False).jobs
            assert record.outcome == "cancelled"
            assert record.service_seconds >= 0.5

    asyncio.run(scenario())


@pytest.mark.slow
def test_waiting_does_not_count(state):
    async def scenario():
        async with host(state, "fcfs-strict", 1) as here:
            first = await here.job("first")
            second = await here.job("second", time_limit=0.1)
            await asyncio.sleep(2.5)
            assert here.status(second).state == "waiting"
            here.service.cancel(ME, first)
            await here.until(lambda: not here.service.jobs())

    asyncio.run(scenario())


def test_what_the_user_expects_counts_until_and_beyond_what_is_learned(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job(expected=100.0)
            assert here.status(job).expected_seconds == 100.0
            other = await here.job()
            assert here.status(other).expected_seconds is None

    asyncio.run(scenario())


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), True, "1h", 1e12])
@pytest.mark.parametrize("name", ["time_limit", "expected"])
def test_seconds_that_cannot_be_are_refused(name, seconds):
    with pytest.raises(ValueError, match=f"^{name} must be a number above 0, at most "):
        JobRequest("n", **{name: seconds})
