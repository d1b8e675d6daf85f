# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is concluded from the times of tokens, without a server."""

from __future__ import annotations

import pytest

from benchmarks.llama.run import Generation, Way, _rows

WAYS = [Way(2, False), Way(1, False), Way(16, True), Way(16, False)]


def generation(way: Way, first: float, middle: float, last: float) -> Generation:
    """Return a generation with so many tokens a second in each part of two seconds."""
    at, now, changes = [0.0], 0.0, []
    for rate in (first, middle, last):
        for _ in range(int(2 * rate)):
            now += 1 / rate
            at.append(now)
        changes.append(now)
    return Generation(way.name, 0, tuple(range(10)), tuple(at), tuple(changes[:2]))


def test_each_part_is_compared_with_a_server_that_was_started_for_its_quota():
    found = [
        generation(WAYS[0], 100, 20, 80),
        generation(WAYS[1], 50, 50, 40),
        generation(WAYS[2], 99, 49, 76),
        generation(WAYS[3], 25, 10, 20),
    ]
    assert found[0].rates() == pytest.approx((100, 20, 80), rel=0.02)
    rows = _rows(found, WAYS)
    values = {row.label: row.found.value for row in rows}
    assert values == {
        "16 threads, tfm run, quota 2": pytest.approx(0.99, rel=0.02),
        "16 threads, tfm run, quota 1": pytest.approx(0.98, rel=0.02),
        "16 threads, tfm run, quota 2 again": pytest.approx(0.95, rel=0.02),
        "16 threads, stock, quota 2": pytest.approx(0.25, rel=0.05),
        "16 threads, stock, quota 1": pytest.approx(0.2, rel=0.1),
        "16 threads, stock, quota 2 again": pytest.approx(0.25, rel=0.05),
        "different texts": 1,
    }
    assert [row.verdict for row in rows[:3]] == ["passed", "passed", "missed"]
