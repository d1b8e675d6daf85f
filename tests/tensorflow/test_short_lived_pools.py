# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pools of real iterators come and go while limits change."""

import pytest

from tests.support import harness

pytestmark = pytest.mark.serial("needs all CPUs for its pools")

ITERATORS = 150


def test_pools_come_and_go_while_limits_change() -> None:
    found = harness.call("cases_pools", "short_lived", harness.CAPACITY, ITERATORS)
    # Three threads, a pool each time.
    assert found["ids"] >= 3 * ITERATORS
    assert found["sums"] == [sum(range(0, 150, 3))] * (3 * ITERATORS // 2)
    assert found["changes"] >= 300
    assert found["left"] == []


def test_a_pool_that_goes_away_runs_what_it_has_begun() -> None:
    rounds = 20
    found = harness.call("cases_pools", "drain", harness.CAPACITY, rounds)
    assert found["begun"] > rounds * harness.CAPACITY / 2
    assert found["queued"] > 0
    assert found["unfinished"] == [0] * rounds
    assert found["pools_left"] == [0] * rounds
