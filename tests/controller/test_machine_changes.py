# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The CPUs that are shared out follow those that the controller may use."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.support.controllers import controller, job, wait_for
from tests.support.service import ME, host, refused
from tf_malleable.api.schema.requests import Submission
from tf_malleable.linux import topology
from tf_malleable.model import Machine

CPUS = sorted(os.sched_getaffinity(0))


def shared(one) -> list[int]:
    return [cpu["id"] for cpu in one.get("/v1")["cpus"]]


@pytest.mark.slow
@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_a_controller_that_may_use_fewer_cpus_grants_fewer(tmp_path):
    with controller(tmp_path, "--policy", "equal") as one, job(one.socket) as working:
        number = working.submit()
        assert one.get(f"/v1/jobs/{number}")["granted"] == CPUS
        os.sched_setaffinity(one.pid, CPUS[:1])
        wait_for(lambda: shared(one) == CPUS[:1])
        wait_for(lambda: one.get(f"/v1/jobs/{number}")["granted"] == CPUS[:1])
        os.sched_setaffinity(one.pid, CPUS)
        wait_for(lambda: shared(one) == CPUS)
        wait_for(lambda: one.get(f"/v1/jobs/{number}")["granted"] == CPUS)


@pytest.mark.slow
@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_cpus_that_were_not_asked_for_are_not_shared_out_instead(tmp_path):
    with controller(tmp_path, "--cpus", str(CPUS[1])) as one:
        os.sched_setaffinity(one.pid, CPUS[:1])
        wait_for(lambda: shared(one) == [])
        os.sched_setaffinity(one.pid, CPUS)
        wait_for(lambda: shared(one) == CPUS[1:2])


@pytest.mark.parametrize(("most", "count"), [(0.5, 1), (1.0, 1), (1.9, 1), (1000.0, len(CPUS))])
def test_a_quota_counts_whole_cpus(most, count):
    assert sorted(topology.present(None, frozenset(CPUS), most).cpuset) == CPUS[:count]


def test_no_cpu_is_left():
    assert topology.present(frozenset({60000}), frozenset(CPUS), 64.0) == Machine(())


def test_jobs_move_to_the_cpus_that_are_left_and_come_back(state):
    async def scenario():
        async with host(state) as here:
            first, second = await here.job(), await here.job()
            assert here.granted() == [2, 2]
            here.service.share_out(Machine.flat(2))
            assert here.granted() == [1, 1]
            granted = {cpu for each in here.service.jobs() for cpu in each.granted}
            assert granted == {0, 1}
            with refused(400, "must be at most 2, the number of CPUs shared out here"):
                here.service.submit(here.program().peer, Submission(name="large", min=3))
            with refused(409, "cannot set 3 cores: only 2 of 2 are left"):
                here.service.set_cores(ME, first, 3)
            here.service.share_out(Machine(()))
            assert here.granted() == [0, 0]
            here.service.share_out(Machine.flat(4))
            assert here.granted() == [2, 2]
            assert here.status(second).state == "running"

    asyncio.run(scenario())


def test_cores_set_by_hand_that_are_gone_are_left_to_the_policy(state):
    async def scenario():
        async with host(state) as here:
            job = await here.job()
            here.service.set_cores(ME, job, 4)
            here.service.share_out(Machine.flat(2))
            assert here.status(job).granted == [0, 1]

    asyncio.run(scenario())
