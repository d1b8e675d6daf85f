# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trainings that are enlarged, compared with those at one limit."""

from __future__ import annotations

import pytest

from benchmarks.common import enlarging


def test_a_slow_training_does_not_count_and_a_slow_step_of_each_does():
    """One training of each way is disturbed; being enlarged costs half a second each time."""
    calls: list[tuple[int, int]] = []

    def train(first: int, then: int) -> list[float]:
        calls.append((first, then))
        disturbed = 3.0 if len(calls) in (1, 2, 3) else 1.0
        cost = 0.5 if then != first else 0.0
        return [1.0 / first * disturbed, (1.0 / then + cost) * disturbed, 1.0 / then * disturbed]

    found = enlarging.measure(train, rounds=2)
    assert (found.at_one, found.at_two, found.enlarged) == pytest.approx((3.0, 1.5, 2.5))
    assert found.share == pytest.approx((3.0 - 2.5) / (3.0 - 2.0))
    # There and back, then the other way round: no way is always first.
    assert calls[:6] == [*calls[:3], *calls[:3][::-1]]
    assert calls[6:9] == calls[:3][::-1]
