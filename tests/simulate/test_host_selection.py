# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A job starts on the host whose cores are least wanted."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tf_malleable.model import Shape
from tf_malleable.simulate.engine.host_selection import Load, choose

FOUR = Shape(1, 4, 4)


def placed(shapes: list[Shape], loads: list[Load]) -> list[Load]:
    """Return the loads once all jobs are placed, none of which ends."""
    for shape in shapes:
        chosen = choose(shape, loads)
        assert chosen is not None
        load = loads[chosen]
        loads[chosen] = replace(
            load, wanted=load.wanted + shape.preferred, least=load.least + shape.min
        )
    return loads


def test_of_equal_hosts_the_first():
    assert choose(FOUR, [Load(8), Load(8)]) == 0


def test_an_empty_host_before_a_busy_one():
    assert choose(FOUR, [Load(8, wanted=4, least=1), Load(8)]) == 1


def test_a_host_counts_in_proportion_to_its_cores():
    assert choose(FOUR, [Load(4, wanted=4), Load(16, wanted=8)]) == 1
    assert choose(FOUR, [Load(4), Load(16, wanted=13)]) == 0


def test_of_hosts_that_are_wanted_equally_the_one_where_less_is_needed():
    assert choose(FOUR, [Load(8, wanted=4, least=4), Load(8, wanted=4, least=1)]) == 1


def test_more_than_a_host_has_is_not_wanted_of_it():
    # With 8 of 4 cores the small host would be twice as wanted as it can be.
    assert choose(Shape(1, 8, 8), [Load(4), Load(8, wanted=1)]) == 0


def test_only_where_its_min_fits():
    wide = Shape(8, 8, 8)
    assert choose(wide, [Load(4), Load(16, wanted=64, least=16), Load(7)]) == 1
    assert choose(wide, [Load(4), Load(7)]) is None
    assert choose(wide, []) is None


@pytest.mark.parametrize("hosts", [2, 3, 8])
def test_equal_jobs_are_spread_evenly(hosts):
    loads = placed([FOUR] * (5 * hosts), [Load(8)] * hosts)
    assert loads == [Load(8, wanted=20, least=5)] * hosts


def test_unequal_hosts_are_wanted_alike():
    sizes = (4, 8, 16, 64)
    random_ = random.Random(1)
    shapes = [Shape(1, random_.randint(1, 4), 4) for _ in range(400)]
    crowded = [load.wanted / load.cores for load in placed(shapes, [Load(n) for n in sizes])]
    # One job wants at most all of the smallest host.
    assert max(crowded) - min(crowded) <= 1
