# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How often the jobs are looked at: always enough to notice in time what has changed."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from statistics import mean

import pytest

from tests.support.service import Host, host
from tf_malleable.controller.jobs.job_measurements import JobMeasurements
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.processes import process_watch
from tf_malleable.controller.processes.process_watch import Watch
from tf_malleable.model import Grant, Shape
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import Lessons
from tf_malleable.scheduling.records.usage import SAMPLE_SECONDS


@pytest.fixture
def samples(monkeypatch):
    """Return the times of all samples."""
    times: list[float] = []
    sample = Watch._sample

    def note(self: Watch) -> None:
        times.append(asyncio.get_running_loop().time())
        sample(self)

    monkeypatch.setattr(Watch, "_sample", note)
    return times


async def rests(here: Host, samples: list[float]) -> list[float]:
    """Return the times between the next few samples; noise delays some of these."""
    count = len(samples)
    await here.until(lambda: len(samples) >= count + 7, 30)
    return [later - earlier for earlier, later in pairwise(samples[count:])]


def running(grant: Grant, *used: float) -> LiveJob:
    """Return a job that has used so many CPUs in each sample."""
    record = Record(
        id="1",
        name="a",
        command=(),
        process=None,
        uid=0,
        shape=Shape(1, 2, 2),
        priority=0,
        weight=1.0,
        submitted=0.0,
        entered=0.0,
        since=0.0,
        grant=grant,
        state="running",
    )
    live = LiveJob(record, JobMeasurements(Lessons()))
    for number in range(len(used) + 1):
        live.note_usage(sum(used[:number]), 0.0, float(number))
    return live


@pytest.mark.slow
def test_as_long_as_nothing_runs_half_of_the_samples_do(tmp_path, samples):
    async def scenario():
        async with host(tmp_path / "controller.db") as here:
            assert mean(await rests(here, samples)) > 1.4 * SAMPLE_SECONDS
            await here.job()
            # It sleeps.
            assert min(await rests(here, samples)) < 1.4 * SAMPLE_SECONDS

    asyncio.run(scenario())


ONE, LENT = Grant(frozenset({0})), Grant(lent=frozenset({0}))


@pytest.mark.parametrize(
    ("live", "steady"),
    [
        (running(ONE, 1.0, 1.0), True),
        (running(ONE, 1.0, 0.5), False),
        (running(ONE), False),
        (running(LENT, 1.0, 1.0), False),
        (running(Grant(frozenset({0, 1})), 1.0, 1.0), False),
    ],
)
def test_a_job_that_computes_with_all_it_has_is_looked_at_less_often(live, steady):
    assert process_watch._is_steady(live) == steady


def test_one_that_was_just_told_of_a_grant_is_looked_at_each_time():
    live = running(ONE, 1.0, 1.0)
    live.take(Grant(frozenset({1})), 2.0)
    live.note_usage(3.0, 0.0, 3.0)
    live.note_usage(4.0, 0.0, 4.0)
    assert not process_watch._is_steady(live)
    live.delivery.note_enforced()
    live.settle(4.0)
    assert process_watch._is_steady(live)


def test_new_grants_are_looked_after_without_delay(tmp_path, samples):
    async def scenario():
        async with host(tmp_path / "controller.db") as here:
            looking = here.service._reactor._watch
            await here.until(lambda: looking._step > 1 and looking._timer is not None, 30)
            job = here.submit(here.program())
            assert here.status(job).granted
            assert looking._step == 1
            count = len(samples)
            await here.until(lambda: len(samples) > count + 3, 30)

    asyncio.run(scenario())


def test_the_speed_of_a_job_is_that_while_it_computes():
    live = JobMeasurements(Lessons())
    live.note_cores(2, 0.0)
    used, steps = 0.0, 0.0
    for tenth in range(1, 600):
        now = tenth * SAMPLE_SECONDS
        # Five seconds in ten, it waits for its input.
        computes = now % 10.0 < 5.0
        used += 2.0 * SAMPLE_SECONDS * computes
        steps += 3.0 * SAMPLE_SECONDS * computes
        live.note_usage(used, 0.0, now, now)
        if tenth % 10 == 0:
            live.note_steps(int(steps), 1000.0, now, now)
    (rate,) = live.speed.rates
    assert rate.cores == 2
    assert rate.steps_per_second == pytest.approx(3.0, rel=0.1)
