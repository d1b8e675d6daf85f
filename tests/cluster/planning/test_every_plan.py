# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What holds for every plan of any cluster, whatever the policy is and whatever happens."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.cluster_plans import befall, drawn, members
from tests.support.policy_situations import SPECS
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
    for _ in range(6):
        cluster.step(policy)
        seen.append(members(cluster.jobs))
    assert seen[-1] == seen[-2]
