# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The decision for all jobs: those with cores set by hand, those barred, and the others."""

from __future__ import annotations

from tf_malleable.model import Job, Machine, Shape
from tf_malleable.model.quota import NO_QUOTAS, Quota, Quotas
from tf_malleable.policies import registry
from tf_malleable.scheduling.decision.decision import Candidate, decide


def candidate(
    name: str, by_hand: int | None = None, barred: bool = False, user: int | None = None
) -> Candidate:
    return Candidate(Job(name, Shape(1, 4, 8), 0.0, user=user), by_hand, barred)


def granted(*candidates: Candidate, quotas: Quotas = NO_QUOTAS) -> dict[str, int]:
    """Return how many of four cores each job is granted."""
    grants = decide(registry.create("equal"), candidates, Machine.flat(4), 0.0, quotas).grants
    return {job: len(grant.cpus) for job, grant in grants.items() if grant}


def test_cores_set_by_hand_come_before_the_policy():
    assert granted(candidate("a"), candidate("b", by_hand=3)) == {"a": 1, "b": 3}
    assert granted(candidate("a"), candidate("b", by_hand=3, barred=True)) == {"a": 4}


def test_more_cores_by_hand_than_there_are_are_left_to_the_policy():
    # As after a restart with fewer CPUs to share out.
    assert granted(candidate("a", by_hand=8)) == {"a": 4}
    assert granted(candidate("a", by_hand=3), candidate("b", by_hand=2)) == {"a": 3, "b": 1}


def test_users_share_before_their_jobs():
    jobs = [candidate("a1", user=1), candidate("a2", user=1), candidate("b", user=2)]
    assert granted(*jobs) == {"a1": 1, "a2": 1, "b": 2}
    assert granted(*jobs, quotas=Quotas(own={2: Quota(weight=3)})) == {"a1": 1, "b": 3}


def test_by_hand_nobody_takes_more_than_his_share_from_another_user():
    greedy = candidate("a", by_hand=4, user=1)
    assert granted(greedy) == {"a": 4}
    assert granted(greedy, candidate("b", user=2)) == {"a": 2, "b": 2}
    assert granted(greedy, candidate("b", user=2, barred=True)) == {"a": 4}
    # Cores by hand count.
    half = candidate("a1", by_hand=2, user=1)
    both = granted(half, candidate("a2", user=1), candidate("b", user=2))
    assert both == {"a1": 2, "a2": 1, "b": 1}


def test_by_hand_nobody_exceeds_his_quota():
    assert granted(candidate("a", by_hand=4, user=1), quotas=Quotas(Quota(max_cores=3))) == {"a": 3}
    two = [candidate("a1", by_hand=1, user=1), candidate("a2", by_hand=1, user=1)]
    assert granted(*two, quotas=Quotas(Quota(max_running=1))) == {"a1": 1}
