# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Quotas of users: the file, what is refused, and that nobody is starved by another user."""

from __future__ import annotations

import asyncio
import os
import re

import pytest

from tests.support.service import ME, host, refused
from tf_malleable.api.schema.requests import Submission
from tf_malleable.controller.jobs.provision import Provision
from tf_malleable.controller.quotas import quota_file
from tf_malleable.controller.quotas.quota_file import default_quotas, read_quotas
from tf_malleable.linux.processes import subordinate_uids
from tf_malleable.linux.processes.peer_credentials import Peer
from tf_malleable.model.quota import NO_QUOTA, NO_QUOTAS, Quota, Quotas

ADA, BOB = 60001, 60002  # No such users, so their names are their ids.
HERS = range(100000, 165536)  # Ada's subordinate uids.


@pytest.fixture
def file(tmp_path):
    return tmp_path / "quotas.conf"


def test_a_file_has_quotas_of_all_and_of_some(file):
    file.write_text("[*]\nmax-jobs = 50\nweight = 0.5\n\n# Hers.\n[60001]\nweight=2\nmax-cores=3\n")
    quotas = read_quotas(file)
    assert quotas.of(ADA) == Quota(weight=2.0, max_jobs=50, max_cores=3)
    assert quotas.of(BOB) == Quota(weight=0.5, max_jobs=50)
    assert quotas.of(0) == NO_QUOTA


def test_memory_has_a_unit_and_a_user_may_have_no_gpu(file):
    file.write_text("[*]\nmax-mem = 64G\nmax-gpus = 0\n[60001]\nmax-mem = 1048576\nmax-gpus = 2\n")
    quotas = read_quotas(file)
    assert quotas.of(BOB) == Quota(max_mem=64 << 30, max_gpus=0)
    assert quotas.of(ADA) == Quota(max_mem=1 << 20, max_gpus=2)


def test_names_are_those_of_the_host_and_root_may_have_one(file):
    file.write_text("[root]\nmax-running = 1\n[nobody]\nmax-queued = 7\n")
    quotas = read_quotas(file)
    assert quotas.of(0) == Quota(max_running=1)
    assert quotas.of(65534) == Quota(max_queued=7)
    assert quotas.of(ADA) == NO_QUOTA


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("[no-such-user]\n", "there is no user 'no-such-user'"),
        ("[*]\nmax-job = 1\n", "[*] has no setting 'max-job'; there are weight, max-jobs,"),
        ("[root]\nmax-jobs = 0\n", "max-jobs of [root] must be an integer from 1 to"),
        ("[root]\nmax-cores = all\n", "max-cores of [root] must be an integer from 1 to"),
        ("[root]\nweight = nan\n", "weight of [root] must be a number above 0, at most 1000"),
        ("[root]\nweight = 0\n", "weight of [root] must be a number above 0"),
        ("[root]\nmax-mem = 0\n", "max-mem of [root] must be a size from 1 MiB to"),
        ("[root]\nmax-mem = lots\n", "max-mem of [root] must be a size from 1 MiB to"),
        ("[root]\nmax-mem = 9999999T\n", "max-mem of [root] must be a size from 1 MiB to"),
        ("[root]\nmax-gpus = -1\n", "max-gpus of [root] must be an integer from 0 to 1024"),
        ("[root]\nmax-gpus = 1025\n", "max-gpus of [root] must be an integer from 0 to 1024"),
        ("max-jobs = 1\n", "are invalid"),
        ("[root]\nmax-jobs\n", "are invalid"),
        ("[root]\n[root]\n", "are invalid"),
        ("[\xff]\n", "there is no user"),
    ],
)
def test_what_is_wrong_in_it_is_said_in_one_sentence(file, content, sentence):
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(sentence)) as caught:
        read_quotas(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused(file):
    with pytest.raises(ValueError, match="cannot read the quotas in"):
        read_quotas(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="are not UTF-8"):
        read_quotas(file)


def test_the_host_s_file_is_for_root_s_controller(file, monkeypatch):
    monkeypatch.setattr(quota_file, "DEFAULT", file)
    assert default_quotas() == NO_QUOTAS
    file.write_text("[*]\nmax-jobs = 5\n")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert default_quotas().usual == Quota(max_jobs=5)
    monkeypatch.setattr(os, "geteuid", lambda: ADA)
    assert default_quotas() == NO_QUOTAS


def test_more_jobs_than_the_quota_are_refused_until_one_has_ended(state):
    async def scenario():
        async with host(state, quotas=Quotas(Quota(max_jobs=2))) as here:
            await here.job(uid=ADA)
            await here.job(uid=ADA)
            third = here.program(uid=ADA)
            with refused(409, f"user {ADA} may have at most 2 jobs at once"):
                here.submit(third)
            assert len(here.service.jobs()) == 2
            await here.job(uid=BOB)
            here.programs[0].end()
            await here.until(lambda: len(here.service.jobs()) == 2)
            here.submit(third)

    asyncio.run(scenario())


def test_a_longer_queue_than_the_quota_is_refused(state):
    async def scenario():
        async with host(state, quotas=Quotas(Quota(max_queued=1)), cpus=1) as here:
            await here.job(uid=ADA)
            await here.job(uid=ADA)
            assert here.states() == ["running", "waiting"]
            with refused(409, f"at most 1 job of user {ADA} may wait at once"):
                here.submit(here.program(uid=ADA))
            # One that computes already does not wait.
            program = here.program(uid=ADA)
            here.service.submit(program.peer, Submission(name="joins", running=True))
            # Another user's queue is another queue.
            await here.job(uid=BOB)
            assert len(here.service.jobs()) == 4

    asyncio.run(scenario())


def test_more_cores_than_the_quota_are_not_granted_nor_set(state):
    async def scenario():
        async with host(state, quotas=Quotas(Quota(max_cores=2))) as here:
            with refused(409, f"min must be at most 2, the cores that user {ADA} may have, not 3"):
                here.submit(here.program(uid=ADA), min=3)
            job = await here.job(uid=ADA)
            assert here.granted() == [2]
            with refused(409, f"cannot set 3 cores: user {ADA} may have at most 2"):
                here.service.set_cores(Peer(ME.pid, 0, 0), job, 3)
            await here.job(uid=ADA)
            assert here.granted() == [1, 1]

    asyncio.run(scenario())


def test_more_memory_and_gpus_than_the_quota_are_not_had(state):
    """A program that sleeps must not keep the memory of all others for itself."""

    async def scenario():
        quotas = Quotas(Quota(max_mem=8 << 30, max_gpus=1))
        provision = Provision(gpus=(0, 1, 2))
        async with host(state, quotas=quotas, provision=provision) as here:
            most = f"mem must be at most 8.0 GiB, the memory that user {ADA} may have, not 8.5 GiB"
            with refused(409, most):
                here.submit(here.program(uid=ADA), mem="8704M")
            with refused(409, f"gpus must be at most 1, the GPUs that user {ADA} may have, not 2"):
                here.submit(here.program(uid=ADA), gpus=2)
            await here.job(uid=ADA, max=1, mem="6G", gpus=1)
            second = await here.job(uid=ADA, max=1, mem="4G")
            third = await here.job(uid=ADA, max=1, mem="1G", gpus=1)
            await here.job(uid=BOB, max=1, mem="8G", gpus=1)
            assert here.states() == ["running", "waiting", "waiting", "running"]
            assert [job.lacks for job in here.service.jobs()] == [
                None,
                "memory quota",
                "gpu quota",
                None,
            ]
            assert here.status(second).reason == (
                f"too little memory is left in the quota of user {ADA}: the job needs 4.0 GiB"
            )
            assert here.status(third).reason == (
                f"too few GPUs are left in the quota of user {ADA}: the job needs 1"
            )
            here.programs[2].end()  # The first two programs were refused.
            await here.until(lambda: here.states() == ["running", "running", "running"])

    asyncio.run(scenario())


def test_a_program_that_runs_already_does_not_reserve_more_memory_than_the_quota(state):
    def joining(size):
        return Submission(name="joins", running=True, mem=size)

    async def scenario():
        async with host(state, quotas=Quotas(Quota(max_mem=8 << 30))) as here:
            await here.job(uid=ADA, max=1, mem="6G")
            program = here.program(uid=ADA)
            with refused(409, "user 60001 may have at most 8.0 GiB of memory at once, and has 6.0"):
                here.service.submit(program.peer, joining("4G"))
            here.service.submit(program.peer, joining("2G"))
            here.service.submit(here.program(uid=BOB).peer, joining("8G"))
            assert here.states() == ["running", "running", "running"]

    asyncio.run(scenario())


def test_no_more_jobs_run_than_the_quota_allows(state):
    async def scenario():
        async with host(state, quotas=Quotas(own={ADA: Quota(max_running=1)})) as here:
            await here.job(uid=ADA)
            await here.job(uid=ADA)
            await here.job(uid=BOB)
            assert here.states() == ["running", "waiting", "running"]
            assert here.granted() == [2, 0, 2]
            here.programs[0].end()
            await here.until(lambda: here.states() == ["running", "running"])

    asyncio.run(scenario())


def test_who_submits_first_and_most_does_not_starve_another_user(state):
    async def scenario():
        async with host(state, cpus=2) as here:
            for _ in range(4):
                await here.job(uid=ADA, max=1)
            await here.job(uid=BOB, max=1)
            assert here.granted() == [1, 1, 0, 0, 0]
            here.programs[0].end()
            await here.until(lambda: here.granted() == [1, 0, 0, 1])

    asyncio.run(scenario())


def test_users_share_the_cores_whatever_they_set_by_hand(state):
    async def scenario():
        async with host(state) as here:
            hers = await here.job(uid=ADA)
            here.service.set_cores(Peer(ME.pid, 0, 0), hers, 4)
            await here.job(uid=BOB)
            assert here.granted() == [2, 2]

    asyncio.run(scenario())


@pytest.fixture
def subordinate(monkeypatch, tmp_path):
    """A host on which Ada has subordinate uids."""
    file = tmp_path / "subuid"
    file.write_text(f"{ADA}:{HERS.start}:{len(HERS)}\n")
    monkeypatch.setattr(subordinate_uids, "FILE", file)


def test_subordinate_uids_have_no_quota_of_their_own(state, subordinate):
    async def scenario():
        async with host(state, quotas=Quotas(Quota(max_jobs=2, max_cores=3))) as here:
            await here.job(uid=ADA)
            await here.job(uid=HERS[0])
            assert sum(here.granted()) == 3
            for uid in (ADA, HERS[1], HERS[-1]):
                with refused(409, f"user {ADA} may have at most 2 jobs at once"):
                    here.submit(here.program(uid=uid))
            with refused(409, f"cannot set 4 cores: user {ADA} may have at most 3"):
                here.service.set_cores(Peer(ME.pid, 0, 0), here.service.jobs()[1].id, 4)
            await here.job(uid=BOB)

    asyncio.run(scenario())


def test_subordinate_uids_have_no_share_of_their_own(state, subordinate):
    async def scenario():
        async with host(state, cpus=6) as here:
            for uid in (ADA, HERS[0], HERS[1]):
                await here.job(uid=uid)
            await here.job(uid=BOB)
            *hers, his = here.granted()
            assert (sum(hers), his) == (3, 3)

    asyncio.run(scenario())


def test_a_job_stays_counted_for_whom_it_was_submitted_for(state, subordinate, tmp_path):
    """Also by another controller, and whatever becomes of the range."""
    quotas = Quotas(Quota(max_jobs=1))

    async def scenario():
        async with host(state, quotas=quotas, close=False) as before:
            await before.job(uid=HERS[0])
            before.service._store.close()
            (tmp_path / "subuid").write_text("")
            async with host(state, quotas=quotas) as here:
                with refused(409, f"user {ADA} may have at most 1 job at once"):
                    here.submit(here.program(uid=ADA))

    asyncio.run(scenario())


def test_a_subordinate_uid_has_no_rights_of_its_owner_s(state, subordinate):
    async def scenario():
        async with host(state) as here:
            hers, other = await here.job(uid=ADA), await here.job(uid=HERS[0])
            for uid, job in ((HERS[0], hers), (ADA, other), (HERS[1], other)):
                with refused(403, f"job {job} belongs to another user"):
                    here.service.cancel(Peer(ME.pid, uid, uid), job)
                assert here.service.sight(Peer(ME.pid, uid, uid)).user == str(uid)

    asyncio.run(scenario())
