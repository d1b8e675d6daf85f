# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What holds for every plan of any cluster, whatever the policy is and whatever happens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.cluster_plans import befall, drawn
from tests.support.policy_situations import SPECS
from tf_malleable.cluster.planning.cluster_job import ClusterJob
from tf_malleable.policies.registry import create

MANY = settings(
    max_examples=20,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
randoms = st.integers(0, 2**32).map(Random)
PREEMPTIVE = ("srpt", "round-robin", "preempt")


@pytest.mark.parametrize("spec", SPECS)
@MANY
@given(random=randoms)
def test_whatever_happens(spec: str, random: Random):
    policy = create(spec)
    cluster = drawn(random)
    for _ in range(8):
        again = cluster.plan(create(spec))
        assert cluster.step(policy) == again
        befall(cluster, random)


@pytest.mark.parametrize("spec", SPECS)
@MANY
@given(random=randoms)
def test_plans_settle_while_time_stands_still(spec: str, random: Random):
    policy = create(spec)
    cluster = drawn(random)
    for _ in range(random.randint(0, 2)):
        cluster.step(policy)
        befall(cluster, random)
    if any(each in spec for each in PREEMPTIVE):
        # Users whose jobs pause each other take turns, and that is not the planner's doing.
        cluster.jobs = {
            name: replace(job, namespace="default") for name, job in cluster.jobs.items()
        }
    seen = []
    for _ in range(10):
        cluster.step(policy)
        seen.append(dict(cluster.jobs))
    before, after = seen[-2:]
    assert [placement(each) for each in before.values()] == [
        placement(each) for each in after.values()
    ]
    # An odd CPU may go to and fro: who gets it depends on who has it, and on what nodes have left.
    for was, now in zip(all_cpus(before), all_cpus(after), strict=True):
        assert abs(now - was) <= 1


def placement(job: ClusterJob) -> list[tuple[str | None, str]]:
    return [(each.pod, each.node) for each in (*job.placed, *job.placed_servers)]


def all_cpus(jobs: Mapping[str, ClusterJob]) -> list[int]:
    return [worker.cpus for job in jobs.values() for worker in job.placed]
