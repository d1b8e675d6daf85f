# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs of several processes: children with an agent of their own, and without."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from tests.support.service import BUSY, ME, Agent, host, refused
from tf_malleable.api.schema.requests import Acknowledgement, Progress, Submission
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.linux.processes.procfs import read_stat, trees


def test_children_are_paused_too(state):
    async def scenario():
        async with host(state) as here:
            code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
            program = here.program(code)
            job = here.submit(program, running=True)
            tree = here.service._reactor.roster.live[job].processes
            await here.until(lambda: len(tree.tree) == 2)
            here.service.pause(ME, job)
            await here.until(lambda: all(read_stat(pid).state == "T" for pid in tree.tree))
            assert len(tree.tree) == 2

    asyncio.run(scenario())


async def parent(here):
    """Return a job with an agent and a child without, as the controller and we know it."""
    program = here.program("import subprocess; subprocess.run(['sleep', '600'])")
    job = here.submit(program, running=True)
    live = here.service._reactor.roster.live[job]
    await here.until(lambda: len(live.processes.tree) == 2)
    here.agents.append(Agent(here.service, program, job))
    await here.until(lambda: live.delivery.agents)
    return job, live, program


def test_children_without_an_agent_are_confined_when_the_grant_changes(state):
    async def scenario():
        async with host(state) as here:
            job, live, _ = await parent(here)
            here.service.set_cores(ME, job, 1)
            child, cpu = live.processes.tree[1], here.status(job).granted[0]
            assert os.sched_getaffinity(child) == {cpu}

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_child_that_was_not_known_when_the_grant_changed_is_confined_soon(state):
    async def scenario():
        async with host(state) as here:
            job, live, _ = await parent(here)
            child = live.processes.tree.pop()  # As if it were born since the last survey.
            here.service.set_cores(ME, job, 1)
            (cpu,) = here.status(job).granted
            assert os.sched_getaffinity(child) != {cpu}
            await here.until(lambda: os.sched_getaffinity(child) == {cpu})

    asyncio.run(scenario())


FORKS_WHEN_TOLD_TO_END = """
import signal, subprocess, time
signal.signal(signal.SIGTERM, lambda *_: subprocess.Popen(["sleep", "600"]))
time.sleep(600)
"""


def test_a_child_that_a_waiting_job_forked_after_its_cancel_is_killed_too(state, monkeypatch):
    monkeypatch.setattr("tf_malleable.controller.jobs.live_job._CANCEL_SECONDS", 0.5)

    async def scenario():
        async with host(state, "fcfs-strict") as here:
            await here.job(min=4, preferred=4)
            program = here.program(FORKS_WHEN_TOLD_TO_END)
            job = here.submit(program)
            assert here.status(job).state == "waiting"
            await here.until(lambda: program.has("SigCgt", signal.SIGTERM))
            here.service.cancel(ME, job)
            await here.until(lambda: len(trees([program.pid])[program.pid]) == 2)
            child = trees([program.pid])[program.pid][1]
            await here.until(lambda: len(here.service.jobs()) == 1)
            # Nobody may have waited for it yet.
            await here.until(lambda: (stat := read_stat(child)) is None or stat.state == "Z")

    asyncio.run(scenario())


def test_a_child_s_agent_is_the_same_job_and_a_stranger_is_not(state):
    async def scenario():
        async with host(state) as here:
            code = "import subprocess; subprocess.run(['sleep', '600'])"
            program = here.program(code)
            job = here.submit(program, running=True)
            live = here.service._reactor.roster.live[job]
            await here.until(lambda: len(live.processes.tree) == 2)
            child = Peer(live.processes.tree[1], program.peer.uid, program.peer.gid)
            status, new = here.service.submit(child, Submission(name="child"))
            assert (status.id, new, status.is_caller) == (job, False, False)
            # The main process again, as after a restart of the controller.
            status, new = here.service.submit(program.peer, Submission(name="again"))
            assert (status.id, new, status.is_caller) == (job, False, True)
            assert not here.status(job).is_caller
            stranger = here.program()
            with refused(403, f"process {stranger.pid} is not part of job {job}"):
                here.service.acknowledge(stranger.peer, job, Acknowledgement(1))
            with refused(403, "is not part of job"):
                here.service.progress(stranger.peer, job, Progress(steps_done=1))

    asyncio.run(scenario())


def test_two_agents_of_one_job_must_both_acknowledge(state):
    async def scenario():
        async with host(state) as here:
            job, live, program = await parent(here)
            here.service.set_cores(ME, job, 1)
            await here.until(lambda: len(here.status(job).actual) == 1)
            child = Peer(live.processes.tree[1], program.peer.uid, program.peer.gid)
            stream = here.service.watch(child, job)
            await anext(stream)
            here.service.set_cores(ME, job, 2)
            await asyncio.sleep(0.1)
            assert len(here.status(job).actual) == 1
            here.service.acknowledge(child, job, Acknowledgement(live.record.serial))
            assert len(here.status(job).actual) == 2
            await stream.aclose()

    asyncio.run(scenario())
