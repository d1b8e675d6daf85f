# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs that others have confined to some of their CPUs: actual is what they can really use."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress

import pytest

from tests.support.service import ME, host

ALL = frozenset(os.sched_getaffinity(0))

pytestmark = pytest.mark.skipif(not {0, 1} <= ALL, reason="needs CPUs 0 and 1")


def confine(pid: int, cpus: frozenset[int]) -> None:
    """Do what taskset -a -p does."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread), cpus)


@pytest.mark.slow
@pytest.mark.parametrize("with_agent", [True, False])
def test_actual_is_what_taskset_has_left(state, with_agent):
    async def scenario():
        async with host(state, cpus=2) as here:
            if with_agent:
                job = await here.job()
            else:
                job = here.submit(here.program(), running=True)
            pid = here.programs[0].pid
            await here.until(lambda: here.status(job).actual == [0, 1])
            assert here.status(job).reason is None
            confine(pid, frozenset({1}))
            await here.until(lambda: here.status(job).actual == [1])
            status = here.status(job)
            assert status.granted == [0, 1]
            assert status.reason == (
                "its processes may use CPUs 1, not all of the granted CPUs 0-1: somebody has"
                " confined them with taskset or a cpuset"
            )
            # What it was measured with from now on.
            assert here.service._reactor.roster.live[job].measured.speed._cores == 1
            await asyncio.sleep(1.5)  # A survey.
            assert os.sched_getaffinity(pid) == {1}
            confine(pid, frozenset({0, 1}))
            await here.until(lambda: here.status(job).actual == [0, 1])
            assert here.status(job).reason is None

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_launcher_that_may_use_all_does_not_hide_it(state):
    async def scenario():
        async with host(state, cpus=2) as here:
            code = "import subprocess; subprocess.run(['sleep', '600'])"
            job = here.submit(here.program(code), running=True)
            live = here.service._reactor.roster.live[job]
            await here.until(lambda: len(live.processes.tree) == 2)
            child = live.processes.tree[1]
            live.delivery.connect(child)
            here.service._reactor.acknowledge(live, child, live.record.serial)
            await here.until(lambda: here.status(job).actual == [0, 1])
            confine(child, frozenset({0}))
            await here.until(lambda: here.status(job).actual == [0])

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_job_that_was_moved_elsewhere_is_shown_there_until_the_next_grant(state):
    async def scenario():
        async with host(state, cpus=2) as here:
            job = here.submit(here.program(), running=True)
            pid = here.programs[0].pid
            here.service.set_cores(ME, job, 1)
            await here.until(lambda: len(here.status(job).actual) == 1)
            (cpu,) = here.status(job).actual
            confine(pid, frozenset({1 - cpu}))
            await here.until(lambda: here.status(job).actual == [1 - cpu])
            here.service.set_cores(ME, job, 2)
            assert os.sched_getaffinity(pid) == {0, 1}
            assert here.status(job).actual == [0, 1]
            await asyncio.sleep(1.5)  # A survey.
            assert here.status(job).actual == [0, 1]

    asyncio.run(scenario())


@pytest.mark.slow
def test_grants_that_change_all_the_time_are_never_called_confined(state):
    async def scenario():
        async with host(state, cpus=2) as here:
            job = await here.job()
            reasons = set()
            for cores in [1, 2] * 12:
                here.service.set_cores(ME, job, cores)
                for _ in range(10):
                    await asyncio.sleep(0.02)
                    reasons.add(here.status(job).reason)
            assert reasons == {None}

    asyncio.run(scenario())
