# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The decision for all jobs: those with cores set by hand, those barred, and the others."""

from __future__ import annotations

from tf_malleable.model import Job, Machine, Shape
from tf_malleable.policies import registry
from tf_malleable.scheduling.decision import Candidate, decide


def candidate(name: str, by_hand: int | None = None, barred: bool = False) -> Candidate:
    return Candidate(Job(name, Shape(1, 4, 8), 0.0), by_hand, barred)


def granted(*candidates: Candidate) -> dict[str, int]:
    """Return how many of four cores each job is granted."""
    grants = decide(registry.create("equal"), candidates, Machine.flat(4), 0.0).grants
    return {job: len(grant.cpus) for job, grant in grants.items() if grant}


def test_cores_set_by_hand_come_before_the_policy():
    assert granted(candidate("a"), candidate("b", by_hand=3)) == {"a": 1, "b": 3}
    assert granted(candidate("a"), candidate("b", by_hand=3, barred=True)) == {"a": 4}


def test_more_cores_by_hand_than_there_are_are_left_to_the_policy():
    # As after a restart with fewer CPUs to share out.
    assert granted(candidate("a", by_hand=8)) == {"a": 4}
    assert granted(candidate("a", by_hand=3), candidate("b", by_hand=2)) == {"a": 3, "b": 1}
