# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What people are told before they change something, and why a job waits."""

from __future__ import annotations

import asyncio
import time

from tests.support.deadline import DEADLINE
from tests.support.service import ME, host, refused
from tf_malleable.api.schema.messages import CoreChange
from tf_malleable.api.schema.requests import JobChange, PreviewQuery
from tf_malleable.controller.requests import what_if
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import Allocation, Grant


def test_a_job_is_told_what_it_waits_for_and_until_when(state, monkeypatch):
    # A loaded machine may need more for its first look.
    monkeypatch.setattr(what_if, "_LOOK_SECONDS", DEADLINE)

    async def scenario():
        async with host(state, "fcfs-strict", 2) as here:
            first = await here.job("first", min=2)
            second = await here.job("second", min=2)
            third = await here.job("third", min=2)
            assert (await here.service.outlook(ME, first)).reason is None
            outlook = await here.service.outlook(ME, second)
            assert outlook.reason == "it needs 2 cores, 0 of 2 are free"
            assert outlook.guessed
            assert outlook.expected_start > time.time()
            later = await here.service.outlook(ME, third)
            assert later.reason == (
                "it needs 2 cores, 0 of 2 are free, and 1 job that waits arrived before it"
            )
            assert later.expected_start > outlook.expected_start

    asyncio.run(scenario())


def test_what_a_person_has_paused_or_cancelled_has_no_expected_start(state):
    async def scenario():
        async with host(state, "fcfs-strict", 2) as here:
            await here.job("first", min=2)
            second = await here.job("second", min=2)
            here.service.pause(ME, second)
            outlook = await here.service.outlook(ME, second)
            assert outlook.reason == f"it is paused; resume it with: tfm resume {second}"
            assert outlook.expected_start is None

    asyncio.run(scenario())


def test_a_job_that_starts_after_another_one_has_no_cores_until_then(state):
    async def scenario():
        async with host(state) as here:
            first = await here.job("first")
            then = await here.job("then", after=[first, "no longer there"])
            other = await here.job("other")
            assert here.granted() == [2, 0, 2]
            with refused(409, "other jobs have not ended: the job starts after them and must"):
                here.submit(here.program(), after=[first], queue=False)
            outlook = await here.service.outlook(ME, then)
            assert outlook.reason == f"it starts after the end of job {first} (first)"
            here.service.cancel(ME, first)
            await here.until(lambda: here.granted() == [2, 2])
            # It does not wait again: ids are never used twice.
            assert here.states() == ["running", "running"]
            assert {job.id for job in here.service.jobs()} == {then, other}

    asyncio.run(scenario())


def test_a_job_has_not_waited_for_cores_while_it_waited_for_another(state):
    async def scenario():
        async with host(state, "fcfs-strict", cpus=1) as here:
            first = await here.job("first")
            await here.job("then", after=[first])
            await here.job("other")
            here.service.cancel(ME, first)
            await here.until(lambda: len(here.service.jobs()) == 2)
            await here.until(lambda: here.states() == ["waiting", "running"])

    asyncio.run(scenario())


def test_a_preview_changes_nothing_and_names_who_would_lose_cores(state):
    async def scenario():
        async with host(state) as here:
            first = await here.job("first")
            second = await here.job("second")
            me = user_name(ME.uid)
            preview = here.service.preview(ME, first, PreviewQuery(cores=3))
            assert preview.changes == [
                CoreChange(first, "first", me, 2, 3),
                CoreChange(second, "second", me, 2, 1),
            ]
            assert here.granted() == [2, 2]
            assert here.status(first).by_hand is None
            here.service.set_cores(ME, first, 3)
            assert here.granted() == [3, 1]
            back = here.service.preview(ME, first, PreviewQuery()).changes
            assert [(each.id, each.after) for each in back] == [(first, 2), (second, 2)]
            with refused(409, "cannot set 5 cores: only 4 of 4 are left"):
                here.service.preview(ME, first, PreviewQuery(cores=5))

    asyncio.run(scenario())


def changes(preview):
    return [(each.id, each.before, each.after) for each in preview.changes]


class Highest:
    """A policy that takes all from whoever has not the highest priority."""

    def allocate(self, jobs, machine, now):
        first = max(jobs, key=lambda job: job.priority)
        return Allocation({first.id: Grant(machine.cpuset)})


def test_every_change_of_a_job_can_be_foreseen(state):
    async def scenario():
        async with host(state, "fcfs-strict", 2) as here:
            first = await here.job("first", min=2)
            second = await here.job("second", min=2)

            def preview(job, **change):
                return changes(here.service.preview(ME, job, PreviewQuery(**change)))

            swap = [(first, 2, 0), (second, 0, 2)]
            for change in ("pause", "cancel"):
                assert preview(first, change=change) == swap
                assert preview(second, change=change) == []
            assert preview(second, change="priority", priority=0) == []
            here.service._reactor._chosen = Highest()
            assert preview(second, change="priority", priority=5) == swap
            here.service.set_policy(ME, "fcfs-strict")
            assert preview(first, change="resume") == []
            assert here.granted() == [2, 0]
            here.service.pause(ME, first)
            await here.until(lambda: here.granted() == [0, 2])
            assert preview(first, change="resume") == []
            here.service.cancel(ME, second)
            await here.until(lambda: here.granted() == [0])
            assert preview(first, change="resume") == [(first, 0, 2)]

    asyncio.run(scenario())


def test_another_policy_can_be_foreseen(state):
    async def scenario():
        async with host(state, "fcfs-strict", 2) as here:
            first, second = await here.job("first"), await here.job("second")
            assert here.granted() == [2, 0]
            found = here.service.preview_policy("equal")
            assert changes(found) == [(first, 2, 1), (second, 0, 1)]
            assert here.service.info().policy == "fcfs-strict"
            assert here.service.preview_policy("fcfs-strict").changes == []
            with refused(400, "there is no policy 'nonsense'"):
                here.service.preview_policy("nonsense")

    asyncio.run(scenario())


def test_everybody_is_told_why_a_job_waits(state):
    async def scenario():
        async with host(state, "fcfs-strict", 2) as here:
            first, second = await here.job("first", min=2), await here.job("second", min=2)
            reasons = [job.reason for job in here.service.jobs()]
            assert reasons == [None, "it needs 2 cores, 0 of 2 are free"]
            assert (here.status(first).reason, here.status(second).reason) == tuple(reasons)

    asyncio.run(scenario())


def test_priority_and_most_cores_can_be_changed(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job(min=2)
            status = here.service.change(ME, job, JobChange(max=3))
            assert (status.max, status.preferred, status.priority) == (3, 3, 0)
            await here.until(lambda: here.granted() == [3])
            status = here.service.change(ME, job, JobChange(priority=7))
            assert (status.max, status.priority) == (3, 7)
            with refused(400, "max must be an integer from 2, the job's min, not 1"):
                here.service.change(ME, job, JobChange(max=1))
            assert here.status(job).max == 3
            assert here.service.change(ME, job, JobChange(max=5)).max == 4

    asyncio.run(scenario())


def test_a_preferred_number_stays_below_the_most(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job(preferred=2, max=4)
            assert here.service.change(ME, job, JobChange(max=3)).preferred == 2
            assert here.service.change(ME, job, JobChange(max=1)).preferred == 1

    asyncio.run(scenario())


def test_changes_outlive_the_controller(state):
    async def scenario():
        async with host(state) as before:
            job = await before.job()
            before.service.change(ME, job, JobChange(priority=7, max=3))
            before.service._reactor._watch.stop()
            before.service._store.close()
            async with host(state) as after:
                status = after.status(job)
                assert (status.priority, status.max) == (7, 3)

    asyncio.run(scenario())


def test_nothing_of_another_user_s_job_is_foreseen_or_changed(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job()
            other = Peer(ME.pid, 65534, 65534)
            sentence = f"job {job} belongs to another user"
            with refused(403, sentence):
                here.service.change(other, job, JobChange(priority=7))
            with refused(403, sentence):
                here.service.preview(other, job, PreviewQuery(cores=1))
            with refused(403, sentence):
                await here.service.outlook(other, job)

    asyncio.run(scenario())


def test_a_job_of_an_array_is_told_that_others_come_first(state):
    async def scenario():
        async with host(state, "equal", 4) as here:
            first, second, third = [
                await here.job(f"n[{index}]", array="a", at_once=1) for index in range(3)
            ]
            other = await here.job("other")
            await here.until(lambda: here.status(other).state == "running")
            states = [here.status(job).state for job in (first, second, third)]
            assert states == ["running", "waiting", "waiting"]
            outlook = await here.service.outlook(ME, second)
            assert outlook.reason == "no more than 1 of the jobs of its array run at once"
            assert outlook.expected_start is None
            here.service.cancel(ME, first)
            await here.until(lambda: here.status(second).state == "running")
            assert here.status(third).state == "waiting"

    asyncio.run(scenario())
