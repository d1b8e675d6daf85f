# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The simulated cluster: closed forms, and nothing is lost."""

from __future__ import annotations

import pytest

from benchmarks.cluster_size import static
from benchmarks.cluster_size.elastic import Simulation
from benchmarks.cluster_size.works import PAUSE_SECONDS, START_SECONDS, Work, bound, works
from tf_malleable.cluster.planning.cluster_job import WorkerBounds
from tf_malleable.policies.queues.speedup import Curve
from tf_malleable.policies.registry import create

LINEAR = Curve(1.0, 0.0)


def work(name: str, arrival: float, seconds: float, workers: int = 1, cpus: int = 4) -> Work:
    return Work(name, arrival, WorkerBounds(1, workers, 1, cpus), 64, seconds, LINEAR)


def simulated(*some: Work, nodes: int = 1, cpus: int = 4):
    return Simulation(some, nodes, cpus, create("equal"), 1.0).run()


def test_one_training_takes_as_long_as_its_work():
    outcome = simulated(work("a", 5.0, 400.0))
    assert outcome.ends == {"a": pytest.approx(5.0 + START_SECONDS + 100.0)}
    assert outcome.rescales == 0


def test_cpus_of_one_that_has_ended_go_to_the_other_without_a_pause():
    outcome = simulated(work("a", 0.0, 200.0), work("b", 0.0, 400.0))
    # Two CPUs each; when the first has ended, half of the second is left.
    assert outcome.ends["a"] == pytest.approx(START_SECONDS + 100.0)
    assert outcome.ends["b"] == pytest.approx(START_SECONDS + 150.0)
    assert outcome.rescales == 0


def test_a_worker_more_is_a_pause():
    outcome = simulated(
        work("a", 0.0, 400.0, cpus=4), work("b", 0.0, 4000.0, workers=2, cpus=4), nodes=2
    )
    assert outcome.rescales == 1
    # Until 110 with one worker; the other has its place three seconds later, and starts.
    before = START_SECONDS + 100.0 + 3.0 + START_SECONDS
    done = 4.0 * (before - START_SECONDS)
    left = (4000.0 - done) / (8.0 * 0.976)
    assert outcome.ends["b"] == pytest.approx(before + PAUSE_SECONDS + left)


def test_static_workers_keep_what_they_asked_for():
    some = [work("a", 0.0, 400.0, cpus=2), work("b", 0.0, 400.0, cpus=4), work("c", 1.0, 20.0)]
    outcome = static.run(some, 1, 4, 1.0)
    assert outcome.ends["a"] == pytest.approx(START_SECONDS + 200.0)
    assert outcome.ends["b"] == pytest.approx(outcome.ends["a"] + START_SECONDS + 100.0)
    assert outcome.ends["c"] == pytest.approx(outcome.ends["b"] + START_SECONDS + 5.0)


@pytest.mark.parametrize("policy", ["equal", "efficient", "srpt"])
def test_all_end_and_none_sooner_than_it_can(policy: str):
    some = works(12, 3)
    outcome = Simulation(some, 4, 64, create(policy), 30.0).run()
    assert outcome.ends.keys() == {each.name for each in some}
    assert all(outcome.ends[w.name] >= w.arrival + w.shortest - 1e-6 for w in some)
    assert outcome.makespan >= bound(some, 256)
    assert max(cpus for _, cpus in outcome.used) <= 256
