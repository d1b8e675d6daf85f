# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs whose main process splits each grant among the others, and elastic trainings."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time

import pytest

from tests.support.service import ME, host
from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.api.schema.requests import Acknowledgement, Progress

FORKS = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
time.sleep(600)
"""
TWO = len(os.sched_getaffinity(0)) >= 2 and {0, 1} <= os.sched_getaffinity(0)


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return next(iter(map(int, file.read().split())), None)


@pytest.mark.skipif(not TWO, reason="needs the CPUs 0 and 1")
@pytest.mark.parametrize("splits", [True, False])
def test_who_splits_keeps_the_parts_and_never_more_than_the_grant(state, splits):
    async def scenario():
        async with host(state, cpus=2) as here:
            program = here.program(FORKS)
            await here.until(lambda: child_of(program.pid))
            child = child_of(program.pid)
            job = here.submit(program)

            async def follow():
                lines = here.service.watch(program.peer, job, splits=splits)
                async with contextlib.aclosing(lines):
                    async for line in lines:
                        body = Acknowledgement(line.serial)
                        here.service.acknowledge(program.peer, job, body)

            following = asyncio.create_task(follow())
            live = here.service._roster.live[job]
            await here.until(lambda: child in live.processes.tree and here.status(job).actual)
            os.sched_setaffinity(child, {1})
            here.service.set_cores(ME, job, 1)
            (cpu,) = here.status(job).granted
            # It had {1} as its part: less than the grant is fine, more is not.
            assert os.sched_getaffinity(child) == {cpu}
            here.service.set_cores(ME, job, None)
            assert here.granted() == [2]
            assert os.sched_getaffinity(child) == ({cpu} if splits else {0, 1})
            os.sched_setaffinity(child, {0, 1})
            here.service.set_cores(ME, job, 1)
            assert os.sched_getaffinity(child) == set(here.status(job).granted)
            following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await following
            # Nobody splits any more.
            here.service.set_cores(ME, job, None)
            assert os.sched_getaffinity(child) == {0, 1}

    asyncio.run(scenario())


def test_generations_are_shown_and_kept(state):
    told = Elastic(workers=2, generation=5, changed=time.time(), reason="join", most_workers=3)

    async def scenario():
        async with host(state) as here:
            job = await here.job()
            peer = here.programs[0].peer
            assert here.status(job).elastic is None
            here.service.progress(peer, job, Progress(steps_done=7, elastic=told))
            assert here.status(job).elastic == told
            here.service.progress(peer, job, Progress(steps_done=8))
            assert here.status(job).elastic == told
            here.programs[0].end()
            await here.until(lambda: not here.service.jobs())
            (record,) = here.service.history(10, spans=False).jobs
            assert record.elastic == told

    asyncio.run(scenario())
