# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""That a lender has its CPU back soon after it wakes up, whatever its borrower runs."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from tests.support.service import ME, host

SLEEPER = """
import signal
signal.signal(signal.SIGUSR1, lambda *_: None)
signal.pause()
while True:
    pass
"""
# Ten processes, so that a lender which wakes up among them gets an eleventh of the CPU.
CROWD = """
import os
for _ in range(9):
    if not os.fork():
        break
while True:
    pass
"""


@pytest.mark.slow
@pytest.mark.serial("it measures time")
@pytest.mark.parametrize("policy", ["lend+efficient", "lend+equal"])
def test_a_lender_has_its_cpu_back_within_half_a_second(state, policy):
    async def scenario():
        async with host(state, policy, cpus=1) as here:
            sleeper = here.program(SLEEPER)
            await here.until(lambda: sleeper.has("SigCgt", signal.SIGUSR1))
            owner = here.submit(sleeper, running=True)
            borrower = here.submit(here.program(CROWD), running=True)
            await here.until(lambda: here.status(owner).lent)
            # The borrower's children are noticed once a second, and its use has to settle.
            await asyncio.sleep(1.5)
            assert here.status(borrower).state == "running"
            assert here.status(owner).lent
            sleeper.send(signal.SIGUSR1)
            woken = time.monotonic()
            await here.until(lambda: not here.status(owner).lent)
            assert time.monotonic() - woken < 0.5
            assert here.status(owner).granted
            assert here.status(borrower).state == "paused"

    asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.serial("it counts how often a CPU moves")
def test_a_lender_that_goes_on_sleeping_keeps_lending(state):
    async def scenario():
        async with host(state, "lend+efficient", cpus=1) as here:
            sleeper = here.program(SLEEPER)
            await here.until(lambda: sleeper.has("SigCgt", signal.SIGUSR1))
            owner = here.submit(sleeper, running=True)
            here.submit(here.program(CROWD), running=True)
            await here.until(lambda: here.status(owner).lent)
            for _ in range(30):
                await asyncio.sleep(0.1)
                assert here.status(owner).lent

    asyncio.run(scenario())


@pytest.mark.serial("it measures time")
def test_who_does_not_carry_out_a_grant_is_soon_confined_from_outside(state):
    async def scenario():
        async with host(state, cpus=2) as here:
            job = await here.job(obeys=False)
            here.service.set_cores(ME, job, 1)
            granted = set(here.status(job).granted)
            assert len(granted) == 1
            pid = here.programs[0].pid
            await here.until(lambda: os.sched_getaffinity(pid) == granted, seconds=0.5)

    asyncio.run(scenario())
