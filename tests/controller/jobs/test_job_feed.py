# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The stream of changes: complete, sparse, shared, and nobody's burden."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import aclosing
from itertools import pairwise

import msgspec
import pytest

from tests.support.service import ME, host
from tf_malleable.api.schema.events import Events
from tf_malleable.api.schema.requests import JobChange
from tf_malleable.controller.requests.job_feed import SILENT_SECONDS, TICK_SECONDS
from tf_malleable.linux.processes.peer_credentials import Peer

pytestmark = pytest.mark.slow


def read(line):
    return msgspec.json.decode(line, type=Events)


async def following(stream, condition):
    """Return the next line of which this is true; fail if none comes."""
    async for line in stream:
        if condition(event := read(line)):
            return event
    raise AssertionError("the stream has ended")


def test_the_first_line_has_everything_and_the_others_what_has_changed(state):
    async def scenario():
        async with host(state, "equal", 4) as here:
            first, second = await here.job("first"), await here.job("second")
            async with aclosing(here.service.events(ME)) as stream:
                event = read(await anext(stream))
                assert event.whole
                assert event.info == here.service.info()
                assert [job.id for job in event.jobs] == [first, second]
                assert [len(job.granted) for job in event.jobs] == [2, 2]
                here.service.change(ME, second, JobChange(priority=7))
                change = await following(
                    stream, lambda event: any(job.priority == 7 for job in event.jobs)
                )
                assert not change.whole
                assert change.info is None
                assert second in [job.id for job in change.jobs]
                here.service.set_policy(ME, "srpt")
                change = await following(stream, lambda event: event.info)
                assert change.info.policy == "srpt"
                here.service.cancel(ME, first)
                change = await following(stream, lambda event: event.gone)
                assert (change.gone, change.ended) == ([first], 1)
                # One that comes and goes between two lines.
                await here.job("short")
                here.programs[-1].end()
                assert (await following(stream, lambda event: event.ended == 2)).at > change.at

    asyncio.run(scenario())


def test_a_job_that_only_waits_is_not_said_again(state):
    async def scenario():
        async with host(state, "fcfs-strict", 1) as here:
            await here.job("first")
            second = await here.job("second")
            async with aclosing(here.service.events(ME)) as stream:
                (_, waiting) = read(await anext(stream)).jobs
                assert waiting.reason == "it needs 1 core, 0 of 1 are free"
                assert waiting.waiting_seconds > 0
                quiet = [read(await anext(stream)) for _ in range(2)]
                assert all(job.id != second for event in quiet for job in event.jobs)
                here.service.pause(ME, second)
                change = await following(
                    stream, lambda event: any(job.id == second for job in event.jobs)
                )
                (paused,) = (job for job in change.jobs if job.id == second)
                assert paused.reason.startswith("it is paused")
                assert paused.waiting_seconds - waiting.waiting_seconds == pytest.approx(
                    paused.as_of - waiting.as_of, abs=0.01
                )

    asyncio.run(scenario())


@pytest.mark.serial("measures the time between lines")
def test_lines_are_rare_even_if_everything_changes_and_come_even_if_nothing_does(state):
    async def scenario():
        async with host(state, "equal", 4) as here:
            job = await here.job()

            async def change_for_ever():
                for priority in range(1000):
                    here.service.change(ME, job, JobChange(priority=priority))
                    await asyncio.sleep(0.01)

            async with aclosing(here.service.events(ME)) as stream:
                await anext(stream)
                changing = asyncio.create_task(change_for_ever())
                begin, lines = time.monotonic(), 0
                while time.monotonic() < begin + 2.0:
                    await anext(stream)
                    lines += 1
                changing.cancel()
                assert 4 <= lines <= 2.0 / TICK_SECONDS + 2
                times = [read(await anext(stream)).at for _ in range(4)]
                assert max(after - before for before, after in pairwise(times)) < (
                    SILENT_SECONDS + 3 * TICK_SECONDS
                )

    asyncio.run(scenario())


def test_readers_share_a_line_unless_they_may_see_less(state):
    async def scenario():
        async with host(state, "equal", 4) as here:
            await here.job("first", command=["python", "secret.py"])
            stranger = Peer(ME.pid, 65534, 65534) if os.getuid() == 0 else ME
            async with (
                aclosing(here.service.events(ME)) as one,
                aclosing(here.service.events(ME)) as two,
                aclosing(here.service.events(stranger)) as three,
            ):
                lines = [await anext(stream) for stream in (one, two, three)]
                assert lines[0] is lines[1]
                assert b"secret.py" in lines[0]
                assert (b"secret.py" in lines[2]) == (stranger is ME)

    asyncio.run(scenario())


def test_who_falls_behind_is_left_behind_and_nobody_else(state):
    async def scenario():
        async with host(state, "equal", 4) as here:
            job = await here.job()
            async with (
                aclosing(here.service.events(ME)) as slow,
                aclosing(here.service.events(ME)) as quick,
            ):
                await anext(slow)
                last = read(await anext(quick)).serial
                for priority in range(12):
                    here.service.change(ME, job, JobChange(priority=priority))
                    event = await following(quick, lambda event: event.jobs)
                    assert event.serial > last
                    last = event.serial
                with pytest.raises(StopAsyncIteration):
                    await anext(slow)
                # Whoever comes again gets everything.
                async with aclosing(here.service.events(ME)) as again:
                    assert read(await anext(again)).jobs[0].priority == 11

    asyncio.run(scenario())


def test_without_readers_nobody_looks_and_streams_end_with_the_controller(state):
    async def scenario():
        async with host(state, "equal", 4) as here:
            feed = here.service._feed
            assert feed._looking is None
            async with aclosing(here.service.events(ME)) as stream:
                await anext(stream)
                assert feed._looking is not None
            assert feed._looking is None
            stream = here.service.events(ME)
            await anext(stream)
            feed.close()
            assert [line async for line in stream] == []

    asyncio.run(scenario())
