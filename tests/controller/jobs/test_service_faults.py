# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a controller does after it was killed, and with a policy that fails."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace

import numpy as np
import pytest

from tests.support.deadline import DEADLINE
from tests.support.service import ME, Agent, host
from tf_malleable.api.schema.requests import Submission
from tf_malleable.controller.state.store import Store
from tf_malleable.model import Allocation, Grant
from tf_malleable.policies import registry


def test_a_restarted_controller_knows_every_job_and_its_grant(state):
    async def scenario():
        async with host(state) as before:
            first = await before.job(name="first", min=1)
            second = await before.job(name="second")
            before.service.set_cores(ME, first, 3)
            before.service.pause(ME, second)
            grants = {job.id: job.granted for job in before.service.jobs()}
            before.service._reactor._watch.stop()
            before.service._store.close()
            async with host(state, policy=None) as after:
                jobs = {job.id: job for job in after.service.jobs()}
                assert {name: job.granted for name, job in jobs.items()} == grants
                assert jobs[first].by_hand == 3
                assert (jobs[second].held, jobs[second].state) == (True, "paused")
                await after.until(lambda: before.programs[1].state() == "T")
                after.agents.append(Agent(after.service, before.programs[0], first))
                await after.until(lambda: after.status(first).actual == grants[first])
                third = await after.job()
                assert third not in jobs
                assert not set(after.status(third).granted) & set(grants[first])

    asyncio.run(scenario())


def test_jobs_that_ended_meanwhile_are_history_after_a_restart(state):
    async def scenario():
        async with host(state) as before:
            job = await before.job(name="gone")
            before.service._reactor._watch.stop()
            before.service._store.close()
            asyncio.get_running_loop().remove_reader(
                before.service._reactor.roster.live[job].processes.pidfd
            )
            before.programs[0].end()
            async with host(state) as after:
                assert after.service.jobs() == []
                ended = after.service.history(10, True).jobs
                assert [(e.id, e.name, e.outcome) for e in ended] == [(job, "gone", "unknown")]

    asyncio.run(scenario())


def test_a_clean_stop_lets_paused_jobs_go_on(state):
    async def scenario():
        async with host(state) as here:
            program = here.program("while True: pass")
            job = here.submit(program, running=True)
            here.service.pause(ME, job)
            await here.until(lambda: program.state() == "T")
            await here.service.close()
            await here.until(lambda: program.state() == "R")

    asyncio.run(scenario())


def test_the_history_has_no_gap_where_the_controller_stopped(state):
    async def scenario():
        async with host(state) as before:
            job = await before.job()
            await asyncio.sleep(0.05)
            await before.service.close()
            before.service._store.close()
            async with host(state) as after:
                spans = [span for span in after.service.history(10, True).spans if span.job == job]
                running = [span for span in spans if span.state == "running"]
                assert running[0].begin == after.status(job).started
                assert [span.end for span in spans[:-1]] == [span.begin for span in spans[1:]]

    asyncio.run(scenario())


DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(600)
"""


def test_a_cancelled_job_is_killed_by_the_next_controller(state, monkeypatch):
    monkeypatch.setattr("tf_malleable.controller.jobs.live_job._CANCEL_SECONDS", 0.5)

    async def scenario():
        async with host(state) as before:
            program = before.program(DEAF)
            job = before.submit(program, running=True)
            await before.until(lambda: program.has("SigIgn", signal.SIGTERM))
            before.service.cancel(ME, job)
            await before.service.close()
            before.service._store.close()
            async with host(state) as after:
                assert after.status(job).granted == []
                await after.until(lambda: not after.service.jobs())
                assert program.wait() == -signal.SIGKILL
                assert after.service.history(1, False).jobs[0].outcome == "cancelled"

    asyncio.run(scenario())


class Raises:
    def allocate(self, jobs, machine, now):
        raise RuntimeError("out of ideas")


class Overlaps:
    def allocate(self, jobs, machine, now):
        return Allocation({job.id: Grant(machine.cpuset) for job in jobs})


class CountsWithNumPy:
    def allocate(self, jobs, machine, now):
        return Allocation({jobs[0].id: Grant(frozenset(np.arange(len(machine.cpus))))})


class ReviewsSoon:
    def allocate(self, jobs, machine, now):
        allocation = registry.create("equal").allocate(jobs, machine, now)
        return replace(allocation, review_at="soon")


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (Raises(), "RuntimeError: out of ideas"),
        (Overlaps(), "InvalidAllocationError: CPU 0 is used by both"),
        (CountsWithNumPy(), "InvalidAllocationError: job 1 gets CPU "),
        (ReviewsSoon(), "InvalidAllocationError: review_at must be None or a finite number"),
    ],
)
def test_a_policy_that_fails_is_contained(state, monkeypatch, policy, problem):
    async def scenario():
        async with host(state) as here:
            await here.job()
            here.service._reactor._chosen = policy
            await here.job()
            assert here.granted() == [2, 2]
            said = here.service.info().problem
            assert said is not None
            assert said.startswith(f"policy equal failed, {registry.DEFAULT} decides instead")
            assert problem in said
            here.service.set_policy(ME, "equal")
            assert here.service.info().problem is None

    asyncio.run(scenario())


def test_a_remembered_policy_that_is_gone_is_replaced_by_the_default(state):
    store = Store(state)
    store.set_setting("policy", "gone")
    store.close()

    async def scenario():
        for _ in range(2):
            async with host(state, policy=None) as here:
                await here.job()
                assert here.granted() == [4]
                info = here.service.info()
                assert info.policy == registry.DEFAULT
                assert info.problem is not None
                assert info.problem.startswith("the last policy, gone, cannot be used")
        async with host(state, policy=None) as here:
            here.service.set_policy(ME, "equal")
            assert here.service.info().problem is None
        async with host(state, policy=None) as here:
            assert (here.service.info().policy, here.service.info().problem) == ("equal", None)

    asyncio.run(scenario())


def test_an_agent_that_does_not_obey_is_helped_from_outside(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job(obeys=False)
            await here.until(lambda: here.agents[0].lines)
            here.service.set_cores(ME, job, 1)
            cpu = here.status(job).granted[0]
            assert os.sched_getaffinity(here.programs[0].pid) != {cpu}
            await here.until(
                lambda: os.sched_getaffinity(here.programs[0].pid) == {cpu}, seconds=DEADLINE
            )
            assert len(here.status(job).actual) == 4

    asyncio.run(scenario())


@pytest.mark.slow
def test_jobs_come_and_go_and_leave_nothing(state):
    async def scenario():
        async with host(state, "lend+equal") as here:
            descriptors = len(os.listdir("/proc/self/fd"))
            for _ in range(20):
                programs = [here.program() for _ in range(5)]
                for program in programs:
                    here.service.submit(program.peer, Submission(name="short", running=True))
                for program in programs:
                    program.send(signal.SIGKILL)
                await here.until(lambda: not here.service.jobs())
                for program in programs:
                    program.end()
            assert len(here.service.history(1000, False).jobs) == 100
            assert len(os.listdir("/proc/self/fd")) <= descriptors + 2

    asyncio.run(scenario())
