# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs wait for memory, for GPUs, and for other jobs to end."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, field

import pytest

from tests.support.cgroup_probe import skip_without
from tests.support.service import host, refused
from tf_malleable.controller.jobs import gpus
from tf_malleable.controller.jobs.gpus import parse_gpus
from tf_malleable.controller.jobs.provision import HostMemory, Provision
from tf_malleable.linux.memory import Memory

GIB = 1 << 30
TAKES = """
import time
held = bytearray(b"x" * (64 << 20))
time.sleep(600)
"""


@dataclass
class Meter:
    """The memory of a host, as the test wants it."""

    available: int
    stalled: float = 0.0
    total: int = 64 * GIB

    def read(self) -> Memory:
        return Memory(self.total, self.available, self.stalled)


@dataclass
class EveryTime(HostMemory):
    """It is read at each decision, not five times a second."""

    meter: Meter = field(default_factory=lambda: Meter(64 * GIB))

    def now(self) -> Memory:
        return self.meter.read()


def memory(available: int, stalled: float = 0.0) -> tuple[Meter, Provision]:
    meter = Meter(available, stalled)
    return meter, Provision(EveryTime(meter=meter))


def test_jobs_start_only_as_far_as_their_memory_fits(state):
    async def scenario():
        _, provision = memory(10 * GIB)
        async with host(state, provision=provision) as here:
            jobs = [await here.job(max=1, mem="4G") for _ in range(3)]
            assert here.states() == ["running", "running", "waiting"]
            assert here.status(jobs[2]).lacks == "memory"
            assert here.status(jobs[2]).mem == 4 * GIB
            here.programs[0].end()
            await here.until(lambda: here.status(jobs[2]).state == "running")
            assert here.status(jobs[2]).lacks is None

    asyncio.run(scenario())


def test_a_job_starts_once_other_programs_release_memory(state):
    async def scenario():
        meter, provision = memory(2 * GIB)
        async with host(state, provision=provision) as here:
            job = await here.job(max=1, mem="4G")
            assert here.states() == ["waiting"]
            meter.available = 32 * GIB
            await here.until(lambda: here.status(job).state == "running")

    asyncio.run(scenario())


def test_what_is_not_known_waits_while_the_host_lacks_memory(state):
    async def scenario():
        meter, provision = memory(32 * GIB, stalled=0.5)
        async with host(state, provision=provision) as here:
            await here.job(max=1)
            job = await here.job(max=1)
            assert here.states() == ["running", "waiting"]
            assert here.status(job).lacks == "memory"
            meter.stalled = 0.0
            await here.until(lambda: here.status(job).state == "running")

    asyncio.run(scenario())


def test_what_a_command_used_is_expected_of_it_again(state):
    async def scenario():
        _, provision = memory(32 * GIB)
        async with host(state, provision=provision) as here:
            program = here.program(TAKES)
            job = here.submit(program, max=1, command=["train"])
            await here.until(lambda: (here.status(job).peak_mem or 0) >= 64 << 20, 30)
            peak = here.status(job).peak_mem
            live = here.service._roster.live[job]
            here.service._roster.end(live, 0)
            (ended,) = here.service.history(10, False).jobs
            assert ended.peak_mem == peak
            again = here.submit(here.program(), max=1, command=["train"])
            assert here.status(again).expected_mem == peak
            other = here.submit(here.program(), max=1, command=["train", "--more"])
            assert here.status(other).expected_mem is None
            return peak

    async def after_a_restart(peak):
        async with host(state) as here:
            job = here.submit(here.program(), max=1, command=["train"])
            assert here.status(job).expected_mem == peak

    peak = asyncio.run(scenario())
    asyncio.run(after_a_restart(peak))


def test_more_memory_than_there_is_is_refused(state):
    async def scenario():
        _, provision = memory(32 * GIB)
        async with host(state, provision=provision) as here:
            with refused(400, "mem must be at most 62.7 GiB, the memory of this host"):
                here.submit(here.program(), mem="64G")
            with refused(400, "mem must be an integer from 1048576 to"):
                here.submit(here.program(), mem="1K")

    asyncio.run(scenario())


def test_a_job_that_must_not_queue_is_told_what_it_lacks(state):
    async def scenario():
        _, provision = memory(2 * GIB)
        async with host(state, provision=provision) as here:
            with refused(409, "too little memory is free: the job needs 4.0 GiB of memory and"):
                here.submit(here.program(), mem="4G", queue=False)
            assert here.service.jobs() == []

    asyncio.run(scenario())


def test_gpus_are_handed_out_whole_and_kept_until_the_end(state):
    async def scenario():
        async with host(state, provision=Provision(gpus=(0, 1, 2))) as here:
            first = await here.job(max=1, gpus=2)
            second = await here.job(max=1, gpus=1)
            third = await here.job(max=1, gpus=1)
            none = await here.job(max=1)
            assert here.status(first).granted_gpus == [0, 1]
            assert here.status(second).granted_gpus == [2]
            assert here.status(third).granted_gpus == []
            assert (here.status(third).state, here.status(third).lacks) == ("waiting", "gpus")
            assert here.status(none).state == "running"
            await here.until(lambda: all(agent.lines for agent in here.agents))
            lines = [agent.lines[-1].gpus for agent in here.agents]
            assert lines == [[0, 1], [2], None, []]
            here.programs[1].end()
            await here.until(lambda: here.status(third).state == "running")
            assert here.status(third).granted_gpus == [2]
            await here.until(lambda: here.service.history(10, False).jobs)
            (ended,) = here.service.history(10, False).jobs
            assert ended.gpus == [2]
            assert here.service.info().gpus == [0, 1, 2]

    asyncio.run(scenario())


def test_gpus_outlive_a_controller_that_is_killed(state):
    async def scenario():
        async with host(state, provision=Provision(gpus=(0, 1))) as before:
            job = await before.job(max=1, gpus=1)
            await before.service.saved()
            before.service._reactor._watch.stop()
            before.service._store.close()
            async with host(state, provision=Provision(gpus=(0, 1))) as after:
                assert after.status(job).granted_gpus == [0]
                other = await after.job(max=1, gpus=1)
                assert after.status(other).granted_gpus == [1]

    asyncio.run(scenario())


def test_gpus_that_are_not_shared_out_are_refused(state):
    async def scenario():
        async with host(state, provision=Provision(gpus=(0,))) as here:
            with refused(400, "gpus must be at most 1, the number of GPUs shared out here, not 2"):
                here.submit(here.program(), gpus=2)
            with refused(400, "gpus must be 0 for a process that is already running"):
                here.submit(here.program(), gpus=1, running=True)

    asyncio.run(scenario())


def test_no_more_jobs_run_than_may(state):
    async def scenario():
        async with host(state, provision=Provision(most_jobs=2)) as here:
            for _ in range(3):
                await here.job(max=1)
            assert here.states() == ["running", "running", "waiting"]
            with refused(409, "as many jobs run as may run at a time"):
                here.submit(here.program(), queue=False)
            here.programs[0].end()
            await here.until(lambda: here.states() == ["running", "running"])

    asyncio.run(scenario())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is sure to make cgroups")
def test_a_job_s_memory_is_limited_where_its_cgroup_can(state):
    async def scenario():
        async with host(state) as here:
            code = "import time; time.sleep(1); held = bytearray(b'x' * (512 << 20))"
            program = here.program(f"{code}; time.sleep(600)")
            job = here.submit(program, mem="128M")
            if here.service._roster.live[job].processes.memory_group is None:
                skip_without("memory")
            await here.until(lambda: not here.service.jobs(), 30)
            assert program.wait() == -9

    asyncio.run(scenario())


def test_the_number_of_gpus_is_an_option():
    assert parse_gpus(None) == ()
    assert parse_gpus("0") == ()
    assert parse_gpus("2") == (0, 1)
    for text in ("-1", "two", "1.5", "²", "99999", ""):
        with pytest.raises(ValueError, match="--gpus must be auto or a number up to 1024"):
            parse_gpus(text)


def test_gpus_are_counted_by_nvml_or_else_from_the_driver(tmp_path, monkeypatch):
    monkeypatch.setattr(gpus, "_PROC", tmp_path)
    monkeypatch.setattr(gpus, "_count_by_nvml", lambda: None)
    for bus in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / bus).mkdir()
    assert parse_gpus("auto") == (0, 1)
    monkeypatch.setattr(gpus, "_PROC", tmp_path / "missing")
    assert parse_gpus("auto") == ()
    monkeypatch.setattr(gpus, "_count_by_nvml", lambda: 3)
    assert parse_gpus("auto") == (0, 1, 2)
