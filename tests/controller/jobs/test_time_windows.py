# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Time windows of a job's limits, and of jobs that may run only then."""

from __future__ import annotations

import asyncio
from datetime import datetime

import pytest

from tests.support.service import ME, host, refused
from tf_malleable.api.schema.requests import JobChange, LimitsBetween, Submission
from tf_malleable.model import Shape

# A Friday, in the local time of this host, as the controller's is.
NOON, NIGHT, SUNDAY = (
    datetime.fromisoformat(f"2026-11-{day}").timestamp()
    for day in ("27 12:00", "27 23:00", "29 23:00")
)


class Wall:
    """The clock on the wall, which people put forward and back."""

    def __init__(self, here, at: float) -> None:
        self.at = at
        here.service._reactor.wall = lambda: self.at


def limits(job):
    return (job.by_hand, job.max, job.priority)


def test_limits_hold_while_a_window_is_open_and_the_others_come_back(state):
    async def scenario():
        async with host(state) as here:
            wall = Wall(here, NOON)
            job = await here.job(priority=2)
            asked = LimitsBetween("22:00-07:00", "mon-fri", cores=1, priority=-5)
            assert limits(here.service.schedule(ME, job, asked)) == (None, 4, 2)
            assert here.granted() == [4]
            for time, shares in ((NIGHT, [1]), (NOON, [4]), (NIGHT, [1]), (SUNDAY, [4])):
                wall.at = time
                await here.until(lambda shares=shares: here.granted() == shares)
            status = here.status(job)
            assert limits(status) == (None, 4, 2)
            assert status.usual_limits is None
            (shown,) = status.schedule
            assert (shown.between, shown.days) == ("22:00-07:00", "mon-fri")
            assert (shown.cores, shown.max, shown.priority) == (1, None, -5)

    asyncio.run(scenario())


def test_what_is_set_while_a_window_is_open_holds_outside_of_it(state):
    async def scenario():
        async with host(state) as here:
            wall = Wall(here, NIGHT)
            job = await here.job()
            here.service.schedule(ME, job, LimitsBetween("22:00-07:00", cores=1, max=2))
            here.service.set_cores(ME, job, 3)
            status = here.service.change(ME, job, JobChange(priority=7))
            assert limits(status) == (1, 2, 7)
            usual = status.usual_limits
            assert (usual.cores, usual.max, usual.priority) == (3, 4, 7)
            wall.at = NOON
            await here.until(lambda: here.granted() == [3])
            assert limits(here.status(job)) == (3, 4, 7)

    asyncio.run(scenario())


def test_several_windows_and_none(state):
    async def scenario():
        async with host(state) as here:
            wall = Wall(here, NIGHT)
            job = await here.job()
            here.service.schedule(ME, job, LimitsBetween("22:00-07:00", cores=1, priority=3))
            here.service.schedule(ME, job, LimitsBetween("11:00-13:00", cores=2))
            # It overlaps the first, and counts where it says something.
            here.service.schedule(ME, job, LimitsBetween("22:30-23:30", cores=3))
            assert limits(here.status(job)) == (3, 4, 3)
            # The same window again replaces what it said.
            here.service.schedule(ME, job, LimitsBetween("11:00-13:00", max=2))
            wall.at = NOON
            await here.until(lambda: limits(here.status(job)) == (None, 2, 0))
            assert here.granted() == [2]
            assert len(here.status(job).schedule) == 3
            status = here.service.unschedule(ME, job)
            assert status.schedule == []
            assert limits(status) == (None, 4, 0)
            assert here.granted() == [4]

    asyncio.run(scenario())


@pytest.mark.parametrize("then", [NIGHT, NOON])
def test_a_restarted_controller_keeps_the_windows_and_the_usual_limits(state, then):
    async def scenario():
        async with host(state, close=False) as here:
            Wall(here, NIGHT)
            job = await here.job(min=1, max=3)
            here.service.schedule(ME, job, LimitsBetween("22:00-07:00", cores=1))
            assert here.granted() == [1]
            await here.service.saved()
            store = here.service._store
            store.close()
            async with host(state) as after:
                wall = Wall(after, then)
                expected = [1] if then == NIGHT else [3]
                await after.until(lambda: after.granted() == expected)
                wall.at = NOON
                await after.until(lambda: after.granted() == [3])
                assert after.service._roster.live[job].record.shape == Shape(1, 3, 3)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (LimitsBetween("22:00", cores=1), "between must be two different times"),
        (LimitsBetween("22:00-07:00", "weekdays", cores=1), "days must be names such as"),
        (LimitsBetween("22:00-07:00"), "a time window needs a limit: cores, max or priority"),
        (LimitsBetween("22:00-07:00", max=1), "max must be an integer from 2, the job's min"),
    ],
)
def test_a_bad_window_is_refused_and_changes_nothing(state, asked, sentence):
    async def scenario():
        async with host(state) as here:
            job = await here.job(min=2)
            with refused(400, sentence):
                here.service.schedule(ME, job, asked)
            assert here.status(job).schedule == []

    asyncio.run(scenario())


def test_more_cores_than_there_are_and_more_windows_than_can_be_are_refused(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job()
            with refused(409, "cannot set 5 cores: there are only 4"):
                here.service.schedule(ME, job, LimitsBetween("22:00-07:00", cores=5))
            for minute in range(20):
                asked = LimitsBetween(f"12:{minute:02}-13:00", priority=1)
                here.service.schedule(ME, job, asked)
            with refused(409, "has 20 time windows"):
                here.service.schedule(ME, job, LimitsBetween("14:00-15:00", priority=1))

    asyncio.run(scenario())


def test_a_job_with_a_window_waits_for_it_and_is_held_after_it(state):
    async def scenario():
        async with host(state) as here:
            wall = Wall(here, NOON)
            other = await here.job("other")
            job = await here.job("nightly", between="22:00-07:00", days="mon-fri")
            assert here.states() == ["running", "waiting"]
            assert here.granted() == [4, 0]
            status = here.status(job)
            assert (status.between, status.days) == ("22:00-07:00", "mon-fri")
            assert status.reason == (
                "it waits until 22:00: it may run only between 22:00 and 07:00 (mon-fri)"
            )
            outlook = await here.service.outlook(ME, job)
            assert outlook.expected_start == NOON + 10 * 3600
            wall.at = NIGHT
            await here.until(lambda: here.granted() == [2, 2])
            wall.at = NOON
            await here.until(lambda: here.granted() == [4, 0])
            assert here.status(job).state == "paused"
            assert not here.status(job).paused_by_user
            await here.until(lambda: here.programs[1].state() == "T")
            wall.at = NIGHT
            await here.until(lambda: here.granted() == [2, 2])
            await here.until(lambda: here.programs[1].state() != "T")
            assert here.status(other).reason is None

    asyncio.run(scenario())


def test_a_restarted_controller_keeps_the_window_of_a_job(state):
    async def scenario():
        async with host(state, close=False) as here:
            Wall(here, NIGHT)
            await here.job(between="22:00-07:00")
            assert here.granted() == [4]
            await here.service.saved()
            here.service._store.close()
            async with host(state) as after:
                Wall(after, NOON)
                await after.until(lambda: after.granted() == [0])

    asyncio.run(scenario())


def test_a_job_that_must_not_wait_is_refused_outside_of_its_window(state):
    async def scenario():
        async with host(state) as here:
            Wall(here, NOON)
            with refused(409, "may run only between 22:00 and 07:00 and must not queue"):
                here.submit(here.program(), between="22:00-07:00", queue=False)
            assert here.service.jobs() == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"between": "7-22"}, "between must be two different times"),
        ({"between": "22:00-07:00", "days": "x"}, "days must be names"),
        ({"days": "mon"}, "give between, too"),
    ],
)
def test_a_job_with_a_bad_window_is_refused(state, fields, sentence):
    async def scenario():
        async with host(state) as here:
            with refused(400, sentence):
                here.service.submit(here.program().peer, Submission(name="job", **fields))

    asyncio.run(scenario())
