# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs that fork fast, leave their tree, or have thousands of processes."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from pathlib import Path

import pytest

from tests.support.cgroup_probe import skip_without
from tests.support.jobs import has_ended
from tests.support.service import ME, host, refused
from tf_malleable.api.schema.requests import Submission
from tf_malleable.linux.cgroups import job_cgroup
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.linux.processes.procfs import read_stat

# Tells in a file the pid of a child that has left the session, and whose parent has ended.
ESCAPES = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_DFL)
time.sleep(0.3)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open({path!r} + ".part", "w").write(str(os.getpid()))
        os.rename({path!r} + ".part", {path!r})
        time.sleep(600)
    time.sleep({seconds})
    os._exit(0)
time.sleep(600)
"""
FORKS = """
import os, time
for _ in range({count}):
    if os.fork() == 0:
        break
while True:
    if os.fork() == 0:
        os._exit(0)
    os.wait()
"""
SLEEPS = """
import os, signal, time
for _ in range({count}):
    if os.fork() == 0:
        while True:
            time.sleep(600)
time.sleep(600)
"""


@pytest.fixture(params=["cgroup", "tree"])
def way(request, monkeypatch):
    """How the processes of a job are known."""
    if request.param == "tree":
        monkeypatch.setattr(job_cgroup, "make", lambda process: None)
    return request.param


def needs(way: str, live) -> None:
    if way == "cgroup" and live.processes.group is None:
        skip_without("freezer")


async def escaped(here, way: str, path: Path, *, seen: bool, **fields) -> tuple[str, int]:
    """Start a job whose child escapes, after a survey has seen it or before."""
    program = here.program(ESCAPES.format(path=str(path), seconds=2.5 if seen else 0))
    job = here.submit(program, running=True, **fields)
    live = here.service._reactor.roster.live[job]
    needs(way, live)
    await here.until(path.exists)
    child = int(path.read_text())
    if seen:
        parent = read_stat(child).parent
        await here.until(lambda: child in live.processes.tree)
        await here.until(lambda: has_ended(parent))
        await asyncio.sleep(1.5)  # Another survey.
        assert child in live.processes.tree
    return job, child


@pytest.mark.slow
def test_a_child_that_has_left_is_paused_and_resumed(state, tmp_path, way, monkeypatch):
    monkeypatch.setattr("tf_malleable.controller.jobs.live_job._CANCEL_SECONDS", 0.5)

    async def scenario():
        async with host(state) as here:
            job, child = await escaped(here, way, tmp_path / "pid", seen=way == "tree")
            here.service.pause(ME, job)
            await here.until(lambda: read_stat(child).state == "T")
            here.service.resume(ME, job)
            await here.until(lambda: read_stat(child).state == "S")
            here.service.cancel(ME, job)
            await here.until(lambda: has_ended(child))

    asyncio.run(scenario())


def test_a_child_that_has_left_is_still_of_its_job(state, tmp_path):
    async def scenario():
        async with host(state) as here:
            job, child = await escaped(here, "cgroup", tmp_path / "pid", seen=False)
            peer = Peer(child, os.getuid(), os.getgid())
            status, new = here.service.submit(peer, Submission(name="again", running=True))
            assert (status.id, new) == (job, False)

    asyncio.run(scenario())


@pytest.mark.slow
def test_when_a_job_ends_nothing_of_it_is_left_if_that_is_wanted(state, tmp_path, way):
    async def scenario():
        async with host(state) as here:
            seen = way == "tree"
            job, child = await escaped(here, way, tmp_path / "pid", seen=seen, kill_leftovers=True)
            group = here.service._reactor.roster.live[job].processes.group
            here.programs[0].send(signal.SIGKILL)
            await here.until(lambda: not here.service.jobs())
            await here.until(lambda: has_ended(child))
            if group is not None:
                await here.until(lambda: not group.folder.exists())

    asyncio.run(scenario())


def test_a_cancelled_job_that_ended_without_a_controller_leaves_nothing(state, tmp_path):
    async def scenario():
        async with host(state, close=False) as before:
            job, child = await escaped(before, "cgroup", tmp_path / "pid", seen=False)
            before.service._reactor._watch.stop()
            live = before.service._reactor.roster.live[job]
            asyncio.get_running_loop().remove_reader(live.processes.pidfd)
            before.service.cancel(ME, job)  # The child ignores SIGTERM.
            before.programs[0].wait()
            assert not has_ended(child)
            before.service._store.close()  # It has been written before, by cancel().
            async with host(state) as after:
                await after.until(lambda: has_ended(child))
                assert after.service.history(1, False).jobs[0].outcome == "cancelled"

    asyncio.run(scenario())


def test_a_cancel_is_on_file_before_the_job_is_told(state, monkeypatch):
    async def scenario():
        async with host(state) as here:
            program = here.program()
            job = here.submit(program, running=True)
            on_file = []

            def terminate(live):
                rows = here.service._store._file.rows("SELECT record FROM live")
                on_file.extend('"cancelled":true' in row[0] for row in rows)

            name = "tf_malleable.controller.processes.enforcement.terminate"
            with monkeypatch.context() as patched:
                patched.setattr(name, terminate)
                here.service.cancel(ME, job)
            assert on_file == [True]

    asyncio.run(scenario())


def test_a_cancel_that_the_job_was_not_told_is_told_by_the_next_controller(state, monkeypatch):
    async def scenario():
        async with host(state, close=False) as before:
            program = before.program()
            job = before.submit(program, running=True)
            with monkeypatch.context() as patched:
                # As if it were killed between the two.
                patched.setattr(
                    "tf_malleable.controller.processes.enforcement.terminate", lambda live: None
                )
                before.service.cancel(ME, job)
            before.service._reactor._watch.stop()
            live = before.service._reactor.roster.live[job]
            asyncio.get_running_loop().remove_reader(live.processes.pidfd)
            before.service._store.close()
            async with host(state) as after:
                # By SIGTERM, long before it would be killed.
                assert program.wait() == -signal.SIGTERM
                await after.until(lambda: not after.service.jobs())

    asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.serial("starts 300 processes that fork all the time")
def test_of_300_forking_processes_none_runs_after_a_pause(state, way):
    async def scenario():
        async with host(state) as here:
            program = here.program(FORKS.format(count=300))
            job = here.submit(program, running=True)
            live = here.service._reactor.roster.live[job]
            needs(way, live)
            children = Path(f"/proc/{program.pid}/task/{program.pid}/children")
            await here.until(lambda: len(children.read_text().split()) >= 300)
            await here.until(lambda: len(live.processes.tree) > 300)
            here.service.pause(ME, job)

            def awake() -> list[str]:
                states = [stat.state for pid in live.processes.tree if (stat := read_stat(pid))]
                assert len(states) >= 300
                return [state for state in states if state in "RSD"]

            if way == "tree":
                await asyncio.sleep(2.5)  # For those that were forked meanwhile: two surveys.
            # Each stops when it runs next, for which there are 300 on a few CPUs.
            await here.until(lambda: not awake())
            await asyncio.sleep(1.5)  # Nor does any run again.
            assert not awake()
            here.service.cancel(ME, job)
            await here.until(lambda: not here.service.jobs())
            await here.until(lambda: all(map(has_ended, live.processes.tree)))

    asyncio.run(scenario())


@pytest.mark.slow
@pytest.mark.serial("measures how long the loop is busy")
def test_watching_3000_children_takes_at_most_5_ms_of_the_loop(state, way, monkeypatch):
    times: list[float] = []
    run = asyncio.Handle._run

    def timed(handle):
        begin = time.thread_time()  # CPU time: the machine may be busy.
        run(handle)
        times.append(time.thread_time() - begin)

    async def scenario():
        async with host(state) as here:
            program = here.program(SLEEPS.format(count=3000))
            job = here.submit(program, running=True)
            live = here.service._reactor.roster.live[job]
            needs(way, live)
            await here.until(lambda: len(live.processes.tree) == 3001, seconds=60)
            await asyncio.sleep(2)
            # As in a controller: what else this test has loaded is not looked at.
            gc.collect()
            gc.freeze()
            with monkeypatch.context() as patched:
                patched.setattr(asyncio.Handle, "_run", timed)
                await asyncio.sleep(5)
            gc.unfreeze()
            here.service.cancel(ME, job)
            await here.until(lambda: not here.service.jobs(), seconds=60)
            # What a hypervisor takes of the CPU now and then counts as CPU time, too.
            assert sorted(times)[-3] <= 0.005

    asyncio.run(scenario())


def test_a_confined_process_is_not_granted_more(state):
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("needs two CPUs")

    async def scenario():
        async with host(state) as here:
            program = here.program()
            os.sched_setaffinity(program.pid, {min(allowed)})
            with refused(409, f"may use only CPUs {min(allowed)}, not all of"):
                here.submit(program)
            assert here.service.jobs() == []
            # One that runs already may have been confined by an earlier grant.
            here.submit(program, running=True)

    asyncio.run(scenario())
