# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How policies are compared with static alternatives."""

from __future__ import annotations

import pytest

from benchmarks.many.decisions import choices
from benchmarks.tournament.fared import Fared, fared, standings, table
from benchmarks.tournament.static import alternatives
from benchmarks.tournament.works import Work, run
from tf_malleable.model import Shape
from tf_malleable.policies.registry import DEFAULT, create

FOUR = Shape(1, 4, 4)
WORKS = [Work(str(n), 0.0, 40.0, 0.0, FOUR) for n in range(4)]


def test_all_policies_that_are_compared_exist():
    assert DEFAULT in choices()
    for name in choices():
        create(name)


def test_static_alternatives_are_each_number_of_cores_and_a_part_each():
    found = alternatives(WORKS, 4)
    assert found.keys() == {"1 each", "2 each", "4 each", "split"}
    assert found["1 each"] == found["split"] == pytest.approx((40.0, 40.0), abs=0.1)
    assert found["4 each"] == pytest.approx((40.0, 25.0), abs=0.1)


def test_a_policy_is_compared_with_the_best_of_them_in_each_measure():
    each = fared("equal", "four", 4, WORKS, run("equal", WORKS, 4), alternatives(WORKS, 4))
    assert each.makespan == pytest.approx(1.0, rel=0.01)
    assert each.turnaround == pytest.approx(1.6, rel=0.01)
    # Alone it would take 10 s.
    assert each.slowdown == pytest.approx(4.0, rel=0.01)
    assert not each.is_good


def test_who_is_good_more_often_stands_first():
    cases = [
        Fared("often", "a", 2, 1.0, 1.0, 2.0, 10.0),
        Fared("often", "b", 2, 1.1, 1.0, 9.0, 30.0),
        Fared("never", "a", 2, 1.03, 1.0, 1.0, 0.0),
        Fared("never", "b", 2, 1.0, 1.06, 1.0, 0.0),
    ]
    first, second = standings(cases)
    assert (first.policy, first.good, first.cases) == ("often", 1, 2)
    assert (first.worst_makespan, first.worst_slowdown, first.moves) == (1.1, 9.0, 30.0)
    assert second.policy == "never"
    assert table([first]).splitlines()[2].startswith("| `often` | 1 of 2 | 1.049 | 1.10 | 1.000 |")
