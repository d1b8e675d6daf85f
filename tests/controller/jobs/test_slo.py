# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Services with objectives: admission, cores that follow the latencies, and what is said."""

from __future__ import annotations

import asyncio
import re
from contextlib import AbstractContextManager

import pytest

from tests.support.service import CPUS, Host, host
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.schema.requests import JobChange, Progress
from tf_malleable.api.schema.services.request_latency import RequestReport
from tf_malleable.model.services.latency import bucket_of


def refused(status: int, sentence: str) -> AbstractContextManager[pytest.ExceptionInfo[Refusal]]:
    return pytest.raises(Refusal, match=rf"^{re.escape(sentence)}")


def report(here: Host, number: int, job: str, seconds: float, count: int = 20) -> None:
    requests = RequestReport(buckets=[bucket_of(seconds)], counts=[count])
    here.service.progress(here.programs[number].peer, job, Progress(requests=requests))


async def said(here: Host, number: int, job: str) -> str:
    """Report requests that are late until the service is said to be so; return what is said.

    Those that may have begun before the last change of cores do not count.
    """

    found = [""]

    def is_said() -> bool:
        report(here, number, job, 0.2)
        found[0] = here.status(job).reason or ""
        return "objective" in found[0]

    await here.until(is_said)
    return found[0]


async def late(here: Host, number: int, job: str, until: int) -> None:
    """Report requests that are late until the service has so many cores."""

    def has_them() -> bool:
        report(here, number, job, 0.2)
        return len(here.status(job).granted) == until

    await here.until(has_them)


@pytest.mark.slow
def test_a_service_gets_cores_while_it_is_late_and_gives_them_up_slowly(state):
    async def scenario():
        async with host(state, "lend+srpt", cpus=4) as here:
            job = await here.job("serve", slo="p99=50ms")
            other = await here.job("train")
            assert here.status(job).slo == "p99=50ms"
            await here.until(lambda: len(here.status(job).granted) == 1)

            def tail() -> float | None:
                report(here, 0, job, 0.01)
                return here.status(job).latency.tail

            await here.until(tail)
            assert tail() == pytest.approx(0.01, rel=0.07)
            await late(here, 0, job, 4)
            assert here.status(other).granted == []
            begin = asyncio.get_running_loop().time()
            # Nothing more is reported: it is calm.
            await here.until(lambda: len(here.status(job).granted) == 3)
            assert asyncio.get_running_loop().time() - begin > 4.5
            assert len(here.status(other).granted) == 1

    asyncio.run(scenario())


def test_objectives_outlive_the_controller(state):
    async def scenario():
        async with host(state) as before:
            job = await before.job("serve", slo="p99.9=1.5s")
            before.service._reactor._watch.stop()
            before.service._store.close()
            async with host(state, policy=None) as after:
                assert after.status(job).slo == "p99.9=1.5s"

    asyncio.run(scenario())


def test_objectives_are_in_the_history(state):
    async def scenario():
        async with host(state) as here:
            await here.job("serve", slo="p99=50ms")
            here.programs[0].end()
            await here.until(lambda: not here.service.jobs())
            assert here.service.history(1, False).jobs[0].slo == "p99=50ms"

    asyncio.run(scenario())


def test_objectives_beyond_the_machine_are_refused(state):
    async def scenario():
        async with host(state) as here:
            first = await here.job("a", min=CPUS - 1, slo="p99=50ms")
            with refused(409, "the objective p99=20ms cannot be kept here: with at least 2 cores"):
                here.submit(here.program(), "b", min=2, slo="p99=20ms")
            plain = await here.job("b", min=2)
            peer = here.programs[-1].peer
            with refused(409, "the objective p99=20ms cannot be kept here: with at least 2 cores"):
                here.service.change(peer, plain, JobChange(slo="p99=20ms"))
            assert here.status(plain).slo is None
            # The objective of the service itself may change.
            here.service.change(here.programs[0].peer, first, JobChange(slo="p90=1s"))
            here.service.change(here.programs[0].peer, first, JobChange(slo="none"))
            assert here.status(first).slo is None
            here.service.change(peer, plain, JobChange(slo="p99=20ms"))
            assert here.status(plain).slo == "p99=20ms"
            assert here.service.jobs()[0].id == first

    asyncio.run(scenario())


@pytest.mark.parametrize("slo", ["p99=NaNms", "p99=0ms", "50ms", "NONE"])
def test_what_is_no_objective_is_refused(state, slo):
    async def scenario():
        async with host(state) as here:
            with refused(400, "slo must be a percentile below 100 and a latency from 1 ms"):
                here.submit(here.program(), slo=slo)
            job = await here.job()
            with refused(400, "slo must be a percentile below 100 and a latency from 1 ms"):
                here.service.change(here.programs[-1].peer, job, JobChange(slo=slo))
            assert here.status(job).slo is None

    asyncio.run(scenario())


def test_of_two_services_that_cannot_both_be_kept_the_older_goes_first_and_it_is_said(state):
    async def scenario():
        async with host(state, cpus=3) as here:
            older = await here.job("older", slo="p99=50ms")
            younger = await here.job("younger", slo="p99=50ms")
            await late(here, 0, older, 2)
            assert await said(here, 1, younger) == (
                "its objective p99=50ms is not kept: p99 is 205 ms with 1 core, as older services"
                f" come first: job {older} (older)"
            )
            assert len(here.status(younger).granted) == 1

    asyncio.run(scenario())
