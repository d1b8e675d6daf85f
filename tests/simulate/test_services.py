# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Simulated services: their latencies against theory, and objectives in virtual time."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import mean

import pytest

from tf_malleable.model import Machine, Shape
from tf_malleable.model.services.slo import Slo
from tf_malleable.simulate.engine.curves import amdahl
from tf_malleable.simulate.engine.request_queue import Bursts, RequestQueue, RequestStream
from tf_malleable.simulate.engine.simulation import Outcome, Scenario, simulate
from tf_malleable.simulate.engine.task import Task

SERIAL = amdahl(1.0)
OBJECTIVE = Slo(99, 0.05)
SHARED = Slo(99, 1.0)
# From 0.3 of a core to 1.5 in bursts.
BURSTS = RequestStream(30, 0.01, Bursts(5, 10, 60))


def one_core(cores: float) -> float:
    return min(1.0, cores)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_latencies_are_those_of_processor_sharing(share):
    """M/G/1 with processor sharing: work / (1 - utilization), whatever the work's distribution."""
    queue = RequestQueue(RequestStream(share / 0.01, 0.01), random.Random(1))
    used = queue.advance(3000, 1, one_core)
    assert mean(queue.ended) == pytest.approx(0.01 / (1 - share), rel=0.05)
    assert used / 3000 == pytest.approx(share, rel=0.05)


def test_no_core_serves_nothing_and_the_oldest_request_shows_it():
    queue = RequestQueue(RequestStream(10, 0.01), random.Random(1))
    assert queue.advance(10, 0, one_core) == 0
    assert queue.ended == []
    assert queue.in_flight == pytest.approx(100, abs=40)
    assert 9 < queue.oldest_seconds <= 10


def test_bursts_have_their_rate():
    stream = RequestStream(100, 1e-6, Bursts(4, 10, 50))
    queue = RequestQueue(stream, random.Random(1))
    counts = []
    for until in (50, 60, 100, 110):
        before = len(queue.ended)
        queue.advance(until, 1, one_core)
        counts.append(len(queue.ended) - before)
    expected = [5000, 4000, 4000, 4000]
    assert counts == [pytest.approx(each, rel=0.1) for each in expected]


@pytest.mark.parametrize(
    "numbers", [(0, 1), (-1, 1), (float("nan"), 1), (1, float("inf")), (1, 0), (1, -1)]
)
def test_streams_that_make_no_sense_are_refused(numbers):
    with pytest.raises(ValueError, match="must be a finite number above 0"):
        RequestStream(*numbers)


@pytest.mark.parametrize("numbers", [(0.5, 1, 2), (float("inf"), 1, 2), (2, 3, 3), (2, 0, 3)])
def test_bursts_that_make_no_sense_are_refused(numbers):
    with pytest.raises(ValueError, match="bursts must"):
        Bursts(*numbers)


def beside_trainings(slo: Slo | None, policy: str) -> Outcome:
    service = Task("serve", 0, 300, SERIAL, Shape(1, 4, 4), steps=None, requests=BURSTS, slo=slo)
    trainings = [Task(name, 0, 600, amdahl(0.05), Shape(1, 4, 4)) for name in ("a", "b")]
    return simulate([service, *trainings], policy, Scenario((Machine.flat(4),)))


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["lend+srpt", "equal", "slo+lend+equal"])
def test_an_objective_is_kept_beside_trainings_and_they_get_what_is_left(policy):
    without = beside_trainings(None, policy).history.jobs
    jobs = beside_trainings(OBJECTIVE, policy).history.jobs
    assert jobs[0].slo == "p99=50ms"
    # Those in flight at the end are not among them.
    assert jobs[0].latency.requests == pytest.approx(without[0].latency.requests, abs=9)
    assert jobs[0].latency.p99 <= 0.05 < without[0].latency.p99
    # The service needs 0.5 cores of 4, on average, and has them in whole cores.
    assert max(job.ended for job in jobs) < 1.5 * max(job.ended for job in without)


@pytest.mark.slow
@pytest.mark.parametrize(("cores", "work", "seconds"), [(1, 100, 200), (2, 300, 200)])
def test_a_training_has_what_a_service_that_preempts_it_leaves(cores, work, seconds):
    """Of one core half, of two three halves; and the service computes as if it were alone."""
    half = RequestStream(50, 0.01)
    service = Task("serve", 0, 300, SERIAL, Shape(1, 9, 9), steps=None, requests=half, slo=SHARED)
    training = Task("train", 0, work, shape=Shape(1, 9, 9))
    scenario = Scenario((replace(Machine.flat(cores), preempts=True),))
    alone = simulate([service], "equal", scenario).history.jobs[0]
    beside, train = simulate([service, training], "equal", scenario).history.jobs
    assert beside.latency == alone.latency
    assert train.ended - train.submitted == pytest.approx(seconds, rel=0.05)
    assert train.cpu_seconds == pytest.approx(work, rel=0.001)
    assert train.resizes == 0


def test_a_training_goes_on_at_full_speed_once_the_service_has_ended():
    half = RequestStream(50, 0.01)
    service = Task("serve", 0, 100, SERIAL, steps=None, requests=half, slo=SHARED)
    training = Task("train", 0, 150)
    scenario = Scenario((replace(Machine.flat(1), preempts=True),))
    train = simulate([service, training], "equal", scenario).history.jobs[-1]
    assert train.ended == pytest.approx(200, rel=0.05)  # Of 100 s half, and then 100 s.


@pytest.mark.slow
def test_bursts_take_from_a_training_that_shares_the_cores_what_they_need():
    """In a minute, 50 s of 1.7 cores and 10 s of 0.5 are 90 core seconds."""
    shape = Shape(1, 2, 2)
    service = Task("serve", 0, 600, SERIAL, shape, steps=None, requests=BURSTS, slo=SHARED)
    training = Task("train", 0, 810, shape=shape)
    scenario = Scenario((replace(Machine.flat(2), preempts=True),))
    train = simulate([service, training], "equal", scenario).history.jobs[-1]
    assert train.ended == pytest.approx(540, rel=0.03)


@pytest.mark.slow
def test_the_same_seed_has_the_same_latencies():
    assert beside_trainings(OBJECTIVE, "equal") == beside_trainings(OBJECTIVE, "equal")
