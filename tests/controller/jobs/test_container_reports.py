# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the controller makes of an engine's reports about containers; there is no engine."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import closing

import pytest

from tests.support.deadline import DEADLINE
from tests.support.fake_containers import FakeContainers, found
from tests.support.service import ME, host, refused
from tf_malleable.api.schema.history import JobRecord
from tf_malleable.controller.state.store import Store
from tf_malleable.linux.processes import pidfds
from tf_malleable.linux.processes.peer_credentials import Peer


def test_one_that_somebody_else_starts_has_waited_until_then(state):
    async def scenario():
        engine = FakeContainers()
        async with host(state, "fcfs-strict", containers=engine) as here:
            await here.job(min=4, preferred=4)
            engine.observer.seen(found())
            _, waiting = here.service.jobs()
            assert waiting.state == "waiting"
            await asyncio.sleep(0.1)
            engine.observer.seen(found(here.program().pid))
            job = here.status(waiting.id)
            assert job.state == "running"
            assert job.waiting_seconds >= 0.1 > job.run_seconds
            spans = here.service.history(10, True).spans
            first = next(span for span in spans if span.job == job.id)
            assert (first.state, first.begin, first.end) == ("waiting", job.submitted, job.started)

    asyncio.run(scenario())


def test_one_that_is_restarted_before_its_exit_code_is_known_is_a_new_job(state, monkeypatch):
    # As before Linux 6.15: the controller waits for the engine to tell the code.
    monkeypatch.setattr(pidfds, "process_exit", lambda process, pidfd: None)

    async def scenario():
        engine = FakeContainers()
        async with host(state, containers=engine) as here:
            first, second = here.program(), here.program()
            engine.observer.seen(found(first.pid))
            (before,) = here.service.jobs()
            first.end()
            await asyncio.sleep(0.1)
            assert [job.id for job in here.service.jobs()] == [before.id]
            engine.observer.seen(found(second.pid))
            await asyncio.sleep(1)
            # A late report of what it was changes nothing.
            engine.observer.seen(found(first.pid))
            (after,) = here.service.jobs()
            assert (after.pid, after.state) == (second.pid, "running")
            ended = here.service.history(10, False).jobs
            assert [(job.id, job.outcome) for job in ended] == [(before.id, "unknown")]

    asyncio.run(scenario())


def test_somebody_else_s_container_is_not_made_a_job(state):
    async def scenario():
        engine = FakeContainers(found(uid=1000))
        async with host(state, containers=engine) as here:
            other = Peer(ME.pid, 65534, 65534)
            with refused(403, "the container training belongs to another user"):
                await here.service.take(other, "training")
            assert here.service.jobs() == []
            job, new = await here.service.take(Peer(ME.pid, 1000, 1000), "training")
            assert ([each.id for each in here.service.jobs()], new) == ([job.id], True)
            with refused(403, "the container training belongs to another user"):
                await here.service.take(other, "training")

    asyncio.run(scenario())


@pytest.mark.parametrize(("out_of_memory", "cause"), [(True, "out-of-memory"), (False, "signal 9")])
def test_the_engine_knows_which_one_was_killed_for_lack_of_memory(state, out_of_memory, cause):
    async def scenario():
        engine = FakeContainers()
        async with host(state, containers=engine) as here:
            program = here.program()
            engine.observer.seen(found(program.pid))
            os.kill(program.pid, signal.SIGKILL)
            # The kernel reports the end first, and the cores do not wait for the engine.
            await here.until(lambda: not here.service.jobs())
            engine.observer.seen(found(state="ended", exit_code=137, out_of_memory=out_of_memory))

            def ended() -> JobRecord:
                return here.service.history(10, False).jobs[0]

            # It is written soon, as nothing waits for the disk.
            await here.until(lambda: ended().cause == cause)
            assert (ended().outcome, ended().exit_code) == ("failed", 137)
        with closing(Store(state)) as store:
            (stored,) = store.history(10)[0]
            assert stored.cause == cause

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))


def test_one_killed_for_lack_of_memory_while_no_controller_ran_is_known_as_that(state):
    async def scenario():
        engine = FakeContainers()
        async with host(state, containers=engine) as here:
            program = here.program()
            engine.observer.seen(found(program.pid))
        program.end()
        engine = FakeContainers()
        async with host(state, containers=engine) as here:
            engine.observer.seen(found(state="ended", exit_code=137, out_of_memory=True))
            (ended,) = here.service.history(10, False).jobs
            assert (ended.outcome, ended.cause) == ("failed", "out-of-memory")

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))
