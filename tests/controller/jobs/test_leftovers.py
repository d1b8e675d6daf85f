# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Processes that outlive the main process of their job: it lasts until the last has ended."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest

from tests.support.cgroup_probe import skip_without
from tests.support.jobs import has_ended
from tests.support.service import ME, host
from tf_malleable.api.schema.requests import Submission
from tf_malleable.linux.cgroups import job_cgroup
from tf_malleable.linux.processes import process_marker, procfs
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.linux.processes.procfs import read_stat

# Marks itself as `tfm run` would. When it is told to, it leaves a child that has another session
# and whose parent has ended, and ends with 3. The child ends when the file is removed.
LAUNCHER = """
import os, signal, subprocess, sys, time
from pathlib import Path
from tf_malleable.linux.processes.process_marker import mark_this_process

signal.signal(signal.SIGTERM, signal.SIG_DFL)
path = Path({path!r})
mark_this_process()
CHILD = '''
import os, sys, time
from pathlib import Path
path = Path(sys.argv[1])
path.with_suffix(".part").write_text(str(os.getpid()))
path.with_suffix(".part").rename(path)
while path.exists():
    time.sleep(0.01)
'''
path.with_suffix(".ready").touch()
while not path.with_suffix(".go").exists():
    time.sleep(0.01)
if os.fork() == 0:
    subprocess.Popen([sys.executable, "-c", CHILD, str(path)], start_new_session=True)
    os._exit(0)
while not path.exists():
    time.sleep(0.01)
sys.exit(3)
"""


@pytest.fixture(params=["cgroup", "tree"])
def way(request, monkeypatch):
    """How the processes of a job are known."""
    if request.param == "tree":
        monkeypatch.setattr(job_cgroup, "make", lambda process: None)
    return request.param


class Left:
    """A job whose main process has ended with 3, and the process that it has left."""

    def __init__(self, here, job, path):
        self.here, self.job, self.path = here, job, path
        self.pid = int(path.read_text())

    @property
    def live(self):
        return self.here.service._reactor.roster.live[self.job]

    def end(self):
        self.path.unlink()

    async def over(self, here=None):
        """Return the job as the history has it."""
        here = here or self.here
        await here.until(lambda: all(each.id != self.job for each in here.service.jobs()))
        (record,) = [each for each in here.service.history(9, False).jobs if each.id == self.job]
        return record


async def left(here, way, path, **fields) -> Left:
    program = here.program(LAUNCHER.format(path=str(path)))
    await here.until(path.with_suffix(".ready").exists)  # Its start is not to count as run time.
    fields.setdefault("running", True)
    job = here.submit(program, **fields)
    if way == "cgroup" and here.service._reactor.roster.live[job].processes.group is None:
        skip_without("freezer")
    path.with_suffix(".go").touch()
    await here.until(path.exists)
    found = Left(here, job, path)
    program.wait()
    await here.until(
        lambda: not here.service.jobs() or here.service.jobs()[0].main_ended is not None
    )
    return found


@pytest.mark.slow
def test_a_job_lasts_until_its_last_process_has_ended(state, tmp_path, way):
    async def scenario():
        async with host(state) as here:
            job = await left(here, way, tmp_path / "pid")
            await here.until(lambda: here.status(job.job).remaining == 1)
            status = here.status(job.job)
            assert (status.state, status.pid, status.exit_code) == ("running", None, 3)
            assert len(status.granted) == 4
            assert status.reason == "its main process has ended with exit code 3; 1 process remains"
            await asyncio.sleep(1.5)  # A survey.
            assert not has_ended(job.pid)
            job.end()
            record = await job.over()
            assert (record.outcome, record.exit_code, record.killed) == ("failed", 3, 0)

    asyncio.run(scenario())


def test_a_job_may_end_with_its_main_process_and_says_what_it_killed(state, tmp_path, way, caplog):
    async def scenario():
        async with host(state) as here:
            job = await left(here, way, tmp_path / "pid", kill_leftovers=True)
            record = await job.over()
            await here.until(lambda: has_ended(job.pid))
            assert (record.outcome, record.exit_code, record.killed) == ("failed", 3, 1)
            (command,) = record.killed_commands
            assert command.startswith(f"{job.pid} (")
            assert f"killed what its main process has left behind: {command}" in caplog.text

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())


@pytest.mark.slow
def test_grants_and_pauses_reach_what_remains(state, tmp_path, way):
    async def scenario():
        async with host(state) as here:
            job = await left(here, way, tmp_path / "pid")
            here.service.set_cores(ME, job.job, 1)
            (cpu,) = here.status(job.job).granted
            await here.until(lambda: os.sched_getaffinity(job.pid) == {cpu})
            here.service.pause(ME, job.job)
            await here.until(lambda: read_stat(job.pid).state == "T")
            await asyncio.sleep(1.5)  # A survey.
            assert not here.status(job.job).stopped
            here.service.resume(ME, job.job)
            await here.until(lambda: read_stat(job.pid).state == "S")
            os.kill(job.pid, signal.SIGSTOP)
            await here.until(lambda: here.status(job.job).stopped)
            os.kill(job.pid, signal.SIGCONT)
            await here.until(lambda: not here.status(job.job).stopped)
            job.end()
            await job.over()

    asyncio.run(scenario())


def test_what_remains_is_cancelled(state, tmp_path, way):
    async def scenario():
        async with host(state) as here:
            job = await left(here, way, tmp_path / "pid")
            here.service.cancel(ME, job.job)
            record = await job.over()
            assert has_ended(job.pid)
            assert (record.outcome, record.exit_code) == ("cancelled", 3)

    asyncio.run(scenario())


@pytest.mark.slow
def test_what_remains_reaches_the_time_limit(state, tmp_path, way):
    async def scenario():
        async with host(state) as here:
            job = await left(here, way, tmp_path / "pid", time_limit=3.0, running=False)
            record = await job.over()
            assert has_ended(job.pid)
            assert record.outcome == "cancelled"

    asyncio.run(scenario())


def test_what_remains_is_of_its_job_and_a_later_job_waits_for_it(state, tmp_path, way):
    async def scenario():
        async with host(state) as here:
            job = await left(here, way, tmp_path / "pid")
            later = here.submit(here.program(), after=[job.job])
            peer = Peer(job.pid, os.getuid(), os.getgid())
            status, new = here.service.submit(peer, Submission(name="again", running=True))
            assert (status.id, new, status.is_caller) == (job.job, False, False)
            assert here.status(later).state == "waiting"
            job.end()
            await job.over()
            await here.until(lambda: here.status(later).state == "running")

    asyncio.run(scenario())


@pytest.mark.parametrize("ended", ["before", "meanwhile"])
def test_the_next_controller_knows_what_remains(state, tmp_path, way, ended):
    async def scenario():
        async with host(state, close=False) as before:
            path = tmp_path / "pid"
            if ended == "before":
                job = await left(before, way, path)
                saved = before.service._store.load
                await before.until(lambda: [each.exit_code for each in saved()] == [3])
                await before.until(lambda: way == "cgroup" or saved()[0].leftovers)
            else:
                program = before.program(LAUNCHER.format(path=str(path)))
                job_id = before.submit(program, running=True)
                live = before.service._reactor.roster.live[job_id]
                if way == "cgroup" and live.processes.group is None:
                    skip_without("freezer")
            before.service._reactor._watch.stop()
            if ended == "meanwhile":
                asyncio.get_running_loop().remove_reader(live.processes.pidfd)
                path.with_suffix(".go").touch()
                program.wait()
                job = Left(before, job_id, path)
            before.service._store.close()
            async with host(state) as after:
                status = after.status(job.job)
                code = 3 if ended == "before" else None
                assert (status.state, status.remaining) == ("running", 1)
                assert (status.pid, status.exit_code) == (None, code)
                assert not has_ended(job.pid)
                job.end()
                record = await job.over(after)
                outcome = "failed" if ended == "before" else "unknown"
                assert (record.outcome, record.exit_code) == (outcome, code)

    asyncio.run(scenario())


@pytest.mark.slow
def test_another_process_with_the_pid_of_the_main_process_is_not_the_job_s(state, tmp_path, way):
    async def scenario():
        async with host(state) as here:
            job = await left(here, way, tmp_path / "pid")
            main = job.live.record.process
            stranger = here.program()
            # As if the kernel had given it the same pid.
            again = type(main)(stranger.pid, main.start, main.boot)
            job.live.amend(type(job.live.record)(**{**vars(job.live.record), "process": again}))
            here.service.pause(ME, job.job)
            await here.until(lambda: read_stat(job.pid).state == "T")
            await asyncio.sleep(1.5)  # A survey.
            assert stranger.state() == "S"
            here.service.cancel(ME, job.job)
            await job.over()
            assert stranger.state() == "S"

    asyncio.run(scenario())


def test_a_marker_of_another_user_does_not_keep_a_job_alive(tmp_path):
    main = procfs.identify(os.getpid())
    uid = os.getuid()
    child = os.fork()
    if not child:
        os.environ[process_marker.VARIABLE] = f"{main.pid}-{main.start}"
        os.execvp("sleep", ["sleep", "600"])
    try:
        # Until it is executed, it has the environment of this process.
        while process_marker.named_main(child) is None:
            pass
        assert process_marker.named_main(child) == (main.pid, main.start)
        assert [each.pid for each in process_marker.marked(main, uid)] == [child]
        assert process_marker.marked(main, uid + 1) == []
        os.kill(child, signal.SIGKILL)
    finally:
        os.waitpid(child, 0)
