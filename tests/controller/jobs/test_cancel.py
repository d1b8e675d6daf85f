# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Cancelling: the main process may have its others end in order, before they are told to end."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.jobs import has_ended
from tests.support.service import ME, host

# Like celery's: two workers in its process group, which SIGTERM kills in the middle of a task. The
# program has them finish their tasks instead, and waits for them.
POOL = """
import os, signal, sys, time
from pathlib import Path
from tf_malleable.linux.processes import procfs
folder = Path({folder!r})
reading, writing = os.pipe()
workers = []
for number in range(2):
    if (pid := os.fork()) == 0:
        os.close(writing)
        (folder / f"started-{{number}}").touch()
        os.read(reading, 1)  # There are no more tasks.
        time.sleep(0.5)  # The current one.
        (folder / f"finished-{{number}}").touch()
        os._exit(0)
    workers.append(pid)
os.close(reading)
def warm_shutdown(*_):
    os.close(writing)
    for pid in workers:
        _, status = os.waitpid(pid, 0)
        if status:
            os._exit(9)
    os._exit(0)
signal.signal(signal.SIGTERM, warm_shutdown)
(folder / "ready").touch()
while True:
    time.sleep(600)
"""
# A shell runs its trap only once the program has ended that it waits for.
TRAPPED = """
import os, sys
folder = {folder!r}
os.chdir(folder)
CHILD = "import pathlib, signal, sys, time;" \\
    "signal.signal(15, lambda *_: sys.exit(pathlib.Path('checkpoint').touch()));" \\
    "pathlib.Path('ready').touch(); time.sleep(600)"
script = f'trap "touch trapped" TERM; {{sys.executable}} -c "{{CHILD}}"'
os.execvp("bash", ["bash", "-c", script])
"""
# A shell without a trap ends at once.
SHELL = TRAPPED.replace('trap "touch trapped" TERM; ', "").replace(
    '-c "{{CHILD}}"\'', '-c "{{CHILD}}"; true\''
)


async def cancelled(here, code, folder):
    """Return how a job ended that was cancelled once its program was ready."""
    program = here.program(code.format(folder=str(folder)))
    job = here.submit(program, running=True)
    await here.until((folder / "ready").exists)
    live = here.service._reactor.roster.live[job]
    await here.until(lambda: len(live.processes.tree) > 1)
    tree = [*live.processes.tree]
    here.service.cancel(ME, job)
    await asyncio.to_thread(program.wait)
    await here.until(lambda: not here.service.jobs())
    await here.until(lambda: all(map(has_ended, tree)))
    return here.service.history(1, False).jobs[0]


@pytest.mark.slow
def test_a_pool_finishes_its_tasks(state, tmp_path):
    async def scenario():
        async with host(state) as here:
            record = await cancelled(here, POOL, tmp_path)
            assert (record.outcome, record.exit_code) == ("cancelled", 0)
            finished = {path.name for path in tmp_path.glob("finished-*")}
            assert finished == {"finished-0", "finished-1"}

    asyncio.run(scenario())


def test_a_paused_pool_finishes_its_tasks(state, tmp_path):
    async def scenario():
        async with host(state) as here:
            program = here.program(POOL.format(folder=str(tmp_path)))
            job = here.submit(program, running=True)
            await here.until((tmp_path / "ready").exists)
            here.service.pause(ME, job)
            await here.until(lambda: program.state() == "T")
            here.service.cancel(ME, job)
            assert await asyncio.to_thread(program.wait) == 0
            await here.until(lambda: not here.service.jobs())

    asyncio.run(scenario())


def test_a_program_whose_shell_has_ended_is_told_to_end(state, tmp_path):
    async def scenario():
        async with host(state) as here:
            record = await cancelled(here, SHELL, tmp_path)
            assert record.outcome == "cancelled"
            assert (tmp_path / "checkpoint").exists()

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_program_whose_shell_does_not_pass_it_on_is_told_before_it_is_killed(
    state, tmp_path, monkeypatch
):
    monkeypatch.setattr("tf_malleable.controller.jobs.live_job._CANCEL_SECONDS", 4.0)

    async def scenario():
        async with host(state) as here:
            record = await cancelled(here, TRAPPED, tmp_path)
            assert record.outcome == "cancelled"
            assert (tmp_path / "checkpoint").exists()
            assert (tmp_path / "trapped").exists()

    asyncio.run(scenario())
